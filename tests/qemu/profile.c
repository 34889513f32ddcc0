// SPDX-License-Identifier: GPL-2.0
/*
 * TCG plugin that counts how often each instruction of the guest's kernel runs.
 *
 * Every instruction has a counter of its own, so the sum is exact also where a
 * block of instructions is left in its middle, as happens at each access to a
 * device. Instructions of user programs share one counter. Counting begins
 * with the first mark that the guest sets (see the control page in ravb.c), so
 * that it boots at full speed. At each further mark what was counted since the
 * last one is written out:
 *
 *   mark <number>
 *   <address> <encoding> <count>
 *   ...
 *   end
 *
 *   -plugin profile.so,out=FILE
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qemu-plugin.h>

/* Instructions of a kernel that run at least once; a power of two. */
#define SLOTS	0x100000u
/* Kernel addresses have this bit set, those of user programs do not. */
#define KERNEL	UINT64_C(0x8000000000000000)

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

/* Set here, called by the device model; in QEMU's binary. */
extern void (*ravb_profile_mark)(uint32_t number);

static struct {
	uint64_t address;
	uint64_t shown;
	uint32_t encoding;
} slot[SLOTS];
static unsigned int used;
static struct qemu_plugin_scoreboard *counters;
static qemu_plugin_id_t self;
static bool counting;
static FILE *out;

static unsigned int find(uint64_t address)
{
	unsigned int i = (address >> 2) * UINT64_C(0x9e3779b97f4a7c15) >> 44;

	i %= SLOTS;
	while (slot[i].address && slot[i].address != address)
		i = (i + 1) % SLOTS;
	if (!slot[i].address) {
		slot[i].address = address;
		if (++used > SLOTS - SLOTS / 8) {
			fprintf(stderr, "profile: too many instructions\n");
			abort();
		}
	}
	return i;
}

static qemu_plugin_u64 counter(unsigned int i)
{
	return (qemu_plugin_u64){ counters, i * sizeof(uint64_t) };
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t n = qemu_plugin_tb_n_insns(tb);
	const enum qemu_plugin_op add = QEMU_PLUGIN_INLINE_ADD_U64;

	for (size_t k = 0; k < n; k++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, k);
		uint64_t address = qemu_plugin_insn_vaddr(insn);
		/* User programs: all of them at the one odd address. */
		unsigned int i = find(address & KERNEL ? address : 1);

		if (address & KERNEL)
			qemu_plugin_insn_data(insn, &slot[i].encoding,
					      sizeof(slot[i].encoding));
		qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn,
								    add, counter(i), 1);
	}
}

/* All blocks are translated anew, now with counters. */
static void start(qemu_plugin_id_t id)
{
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
}

static void mark(uint32_t number)
{
	if (!counting) {
		counting = true;
		qemu_plugin_reset(self, start);
	}
	fprintf(out, "%s %" PRIu32 "\n", __func__, number);
	for (unsigned int i = 0; i < SLOTS; i++) {
		uint64_t count;

		if (!slot[i].address)
			continue;
		count = qemu_plugin_u64_sum(counter(i));
		if (count != slot[i].shown)
			fprintf(out, "%" PRIx64 " %" PRIx32 " %" PRIu64 "\n",
				slot[i].address, slot[i].encoding,
				count - slot[i].shown);
		slot[i].shown = count;
	}
	fprintf(out, "end\n");
	fflush(out);
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id,
					   const qemu_info_t *info, int argc,
					   char **argv)
{
	if (argc != 1 || strncmp(argv[0], "out=", 4)) {
		fprintf(stderr, "profile: give out=FILE\n");
		return -1;
	}
	out = fopen(argv[0] + 4, "w");
	if (!out) {
		perror(argv[0] + 4);
		return -1;
	}
	counters = qemu_plugin_scoreboard_new(SLOTS * sizeof(uint64_t));
	self = id;
	ravb_profile_mark = mark;
	return 0;
}
