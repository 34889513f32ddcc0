// SPDX-License-Identifier: GPL-2.0
/*
 * Tells which allocations were made to fail, whatever made them fail, and by
 * whom they were asked for. The kernel itself says nothing of those that must
 * not warn, which most of a driver's hot path are.
 *
 * It can also do within one function what /proc/self/fail-nth does within a
 * task: for what the kernel does in threads of its own, and for callbacks of a
 * driver between much else that allocates.
 *
 * /sys/kernel/debug/lab_faults/sites has a line for each chain of callers: how
 * often, and the callers, innermost first. Writing to it forgets them.
 * .../nth is as fail-nth: the allocation in the function that fails next, over
 * as many calls as it takes, and 0 when it has failed.
 */
#include <linux/debugfs.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>
#include <linux/stacktrace.h>

#define LAB_FAULTS_DEPTH 48
#define LAB_FAULTS_SITES 256

static char *function;
module_param(function, charp, 0400);
MODULE_PARM_DESC(function, "The function that nth is about");

struct lab_faults_site {
	unsigned long callers[LAB_FAULTS_DEPTH];
	unsigned int depth;
	unsigned int count;
};

static DEFINE_RAW_SPINLOCK(lab_faults_lock);
static struct lab_faults_site lab_faults_sites[LAB_FAULTS_SITES];
static unsigned int lab_faults_used;
static u32 lab_faults_nth;
/* Who is in the function, with nth of its own. */
static struct task_struct *lab_faults_inside;

static void lab_faults_note(const unsigned long *callers, unsigned int depth)
{
	size_t size = depth * sizeof(*callers);
	struct lab_faults_site *site;
	unsigned int at;

	for (at = 0; at < lab_faults_used; at++) {
		site = &lab_faults_sites[at];
		if (site->depth == depth &&
		    !memcmp(site->callers, callers, size)) {
			site->count++;
			return;
		}
	}
	if (at == LAB_FAULTS_SITES)
		return;
	site = &lab_faults_sites[at];
	memcpy(site->callers, callers, size);
	site->depth = depth;
	site->count = 1;
	lab_faults_used++;
}

static int lab_faults_judged(struct kretprobe_instance *instance,
			     struct pt_regs *regs)
{
	unsigned long callers[LAB_FAULTS_DEPTH];
	unsigned long asked = get_kretprobe_retaddr(instance);
	unsigned int depth, first = 0;
	unsigned long flags;

	/* A bool of one, an error of the other: the lowest byte tells. */
	if (!(u8)regs_return_value(regs))
		return 0;
	depth = stack_trace_save(callers, LAB_FAULTS_DEPTH, 0);
	/* Without what this probe has added. */
	while (first < depth && callers[first] != asked)
		first++;
	if (first == depth)
		first = 0;
	raw_spin_lock_irqsave(&lab_faults_lock, flags);
	lab_faults_note(callers + first, depth - first);
	raw_spin_unlock_irqrestore(&lab_faults_lock, flags);
	return 0;
}

static int lab_faults_enter(struct kretprobe_instance *instance,
			    struct pt_regs *regs)
{
	/* Interrupts allocate for others than the task. */
	if (!READ_ONCE(lab_faults_nth) || !in_task() || current->fail_nth ||
	    cmpxchg(&lab_faults_inside, NULL, current))
		return 1;
	current->fail_nth = READ_ONCE(lab_faults_nth);
	return 0;
}

static int lab_faults_leave(struct kretprobe_instance *instance,
			    struct pt_regs *regs)
{
	WRITE_ONCE(lab_faults_nth, current->fail_nth);
	current->fail_nth = 0;
	/* The next one sees what is left. */
	smp_store_release(&lab_faults_inside, NULL);
	return 0;
}

static struct kretprobe lab_faults_slab = {
	.kp.symbol_name = "should_failslab",
	.handler = lab_faults_judged,
	.maxactive = 64,
};

static struct kretprobe lab_faults_page = {
	.kp.symbol_name = "should_fail_alloc_page",
	.handler = lab_faults_judged,
	.maxactive = 64,
};

static struct kretprobe lab_faults_function = {
	.entry_handler = lab_faults_enter,
	.handler = lab_faults_leave,
	.maxactive = 64,
};

static struct kretprobe *lab_faults_probes[] = {
	&lab_faults_slab,
	&lab_faults_page,
	&lab_faults_function,
};

static int lab_faults_show(struct seq_file *file, void *unused)
{
	const struct lab_faults_site *site = lab_faults_sites;
	unsigned int used = READ_ONCE(lab_faults_used);

	for (; site < lab_faults_sites + used; site++) {
		seq_printf(file, "%u", site->count);
		for (unsigned int at = 0; at < site->depth; at++)
			seq_printf(file, ";%pB", (void *)site->callers[at]);
		seq_putc(file, '\n');
	}
	return 0;
}

static int lab_faults_open(struct inode *inode, struct file *file)
{
	return single_open(file, lab_faults_show, NULL);
}

static ssize_t lab_faults_write(struct file *file, const char __user *from,
				size_t size, loff_t *position)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&lab_faults_lock, flags);
	lab_faults_used = 0;
	raw_spin_unlock_irqrestore(&lab_faults_lock, flags);
	return size;
}

static const struct file_operations lab_faults_file = {
	.owner = THIS_MODULE,
	.open = lab_faults_open,
	.read = seq_read,
	.write = lab_faults_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static struct dentry *lab_faults_dir;

static int __init lab_faults_init(void)
{
	int count = ARRAY_SIZE(lab_faults_probes);
	int err;

	lab_faults_function.kp.symbol_name = function;
	if (!function)
		count--;
	err = register_kretprobes(lab_faults_probes, count);
	if (err)
		return err;
	lab_faults_dir = debugfs_create_dir("lab_faults", NULL);
	debugfs_create_file("sites", 0600, lab_faults_dir, NULL,
			    &lab_faults_file);
	debugfs_create_u32("nth", 0600, lab_faults_dir, &lab_faults_nth);
	return 0;
}
module_init(lab_faults_init);

static void __exit lab_faults_exit(void)
{
	int count = ARRAY_SIZE(lab_faults_probes);

	debugfs_remove(lab_faults_dir);
	unregister_kretprobes(lab_faults_probes, function ? count : count - 1);
}
module_exit(lab_faults_exit);

MODULE_DESCRIPTION("Tells of allocations that were made to fail");
MODULE_LICENSE("GPL");
