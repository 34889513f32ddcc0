// SPDX-License-Identifier: GPL-2.0
/*
 * The Ethernet AVB model as a QEMU device, its clock generator, and a machine
 * that allows both.
 *
 * Nothing here knows how the device behaves. This file connects the model
 * (tests/model, see ravb_model.h) to what QEMU has: MMIO windows, interrupt
 * lines, guest memory, the virtual clock, a network backend and QOM
 * properties. It is linked into an unmodified QEMU.
 *
 *   -device renesas-r9a07g044-cpg,id=cpg0
 *   -device renesas-ravb,id=mac0,cpg=cpg0,cpg-output=0,netdev=net0,variant=…
 */
#include "qemu/osdep.h"
#include "qapi/error.h"
#include "qapi/visitor.h"
#include "qemu/log.h"
#include "qemu/module.h"
#include "qemu/queue.h"
#include "qemu/timer.h"
#include "exec/address-spaces.h"
#include "hw/boards.h"
#include "hw/irq.h"
#include "hw/qdev-properties.h"
#include "hw/sysbus.h"
#include "net/net.h"
#include "system/cpu-timers.h"

#include "ravb_model.h"

#define TYPE_RAVB "renesas-ravb"
OBJECT_DECLARE_SIMPLE_TYPE(RavbState, RAVB)

#define TYPE_RAVB_CPG "renesas-r9a07g044-cpg"
OBJECT_DECLARE_SIMPLE_TYPE(RavbCpgState, RAVB_CPG)

#define RAVB_CPG_OUTPUTS	2
#define RAVB_CPG_WINDOW		0x10000
/* Enough for the descriptor table and the rings of every queue. */
#define RAVB_WATCHES		64
#define RAVB_MIN_FRAME		60
/* Where the guest finds the control page: between two devices of `virt`. */
#define RAVB_CONTROL		0x0b000000
#define RAVB_CONTROL_WINDOW	0x1000

struct RavbCpgState {
	SysBusDevice parent_obj;

	MemoryRegion mmio;
	struct ravb_cpg *cpg;
	RavbState *mac[RAVB_CPG_OUTPUTS];
};

/* A frame that came while the model was busy. */
typedef struct RavbFrame RavbFrame;
struct RavbFrame {
	QSIMPLEQ_ENTRY(RavbFrame) next;
	size_t len;
	uint8_t data[];
};

/* An I/O region laid over guest memory. */
typedef struct RavbWatch RavbWatch;
struct RavbWatch {
	MemoryRegion mr;
	RavbState *mac;
	uint64_t addr;
	bool used;
};

struct RavbState {
	SysBusDevice parent_obj;

	struct ravb_model *model;
	bool busy;
	QSIMPLEQ_HEAD(, RavbFrame) waiting;

	MemoryRegion mmio;
	MemoryRegion control;
	qemu_irq irq[RAVB_MODEL_MAX_IRQS];
	unsigned int num_irqs;
	QEMUTimer *timer;

	/*
	 * The device sees RAM and nothing else: neither other devices nor the
	 * watches that the CPUs go through.
	 */
	MemoryRegion dma_root;
	MemoryRegion dma_ram;
	AddressSpace dma_as;
	RavbWatch watch[RAVB_WATCHES];

	NICState *nic;
	NICConf conf;

	RavbCpgState *cpg;
	uint32_t cpg_output;
};

/*
 * The model is not re-entrant, but a frame it sends may come straight back as
 * an answer (slirp does that) while it is still in the middle of something.
 * Every call into it is bracketed; such frames wait for the closing bracket.
 */
static struct ravb_model *ravb_enter(RavbState *s)
{
	assert(!s->busy);
	s->busy = true;
	return s->model;
}

static void ravb_leave(RavbState *s)
{
	RavbFrame *frame;

	while ((frame = QSIMPLEQ_FIRST(&s->waiting))) {
		QSIMPLEQ_REMOVE_HEAD(&s->waiting, next);
		ravb_model_receive(s->model, frame->data, frame->len);
		g_free(frame);
	}
	s->busy = false;
}

/* What the model asks from the machine. */

static uint64_t ravb_now(void *opaque)
{
	return qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL);
}

static bool ravb_dma_read(void *opaque, uint64_t addr, void *buf, size_t len)
{
	RavbState *s = opaque;

	return address_space_read(&s->dma_as, addr, MEMTXATTRS_UNSPECIFIED, buf,
				  len) == MEMTX_OK;
}

static bool ravb_dma_write(void *opaque, uint64_t addr, const void *buf,
			   size_t len)
{
	RavbState *s = opaque;

	return address_space_write(&s->dma_as, addr, MEMTXATTRS_UNSPECIFIED,
				   buf, len) == MEMTX_OK;
}

static void ravb_set_irq(void *opaque, unsigned int line, bool level)
{
	RavbState *s = opaque;

	assert(line < s->num_irqs);
	qemu_set_irq(s->irq[line], level);
}

static void ravb_arm_timer(void *opaque, uint64_t deadline)
{
	RavbState *s = opaque;

	/*
	 * Never in the past: QEMU's main loop could run such a timer while the
	 * CPU still executes, and -icount runs would not repeat.
	 */
	if (deadline == RAVB_MODEL_NO_DEADLINE)
		timer_del(s->timer);
	else
		timer_mod_ns(s->timer, MIN(MAX(deadline, ravb_now(s) + 1),
					   INT64_MAX));
}

static void ravb_transmit(void *opaque, const uint8_t *frame, size_t len)
{
	RavbState *s = opaque;

	qemu_send_packet(qemu_get_queue(s->nic), frame, len);
}

static void ravb_log(void *opaque, const char *line)
{
	RavbState *s = opaque;
	const char *id = DEVICE(s)->id;

	qemu_log("%s: %s\n", id ? id : TYPE_RAVB, line);
}

static void ravb_watch(void *opaque, uint64_t addr, uint64_t len)
{
	RavbState *s = opaque;

	for (int i = 0; i < RAVB_WATCHES; i++) {
		RavbWatch *w = &s->watch[i];

		if (w->used)
			continue;
		w->used = true;
		w->addr = addr;
		memory_region_set_size(&w->mr, len);
		memory_region_add_subregion_overlap(get_system_memory(), addr,
						    &w->mr, 1);
		return;
	}
	ravb_log(s, "too many watches, one ignored");
}

static void ravb_unwatch_all(void *opaque)
{
	RavbState *s = opaque;

	memory_region_transaction_begin();
	for (int i = 0; i < RAVB_WATCHES; i++) {
		RavbWatch *w = &s->watch[i];

		if (w->used)
			memory_region_del_subregion(get_system_memory(), &w->mr);
		w->used = false;
	}
	memory_region_transaction_commit();
}

/* What the machine tells the model. */

static MemTxResult ravb_mmio_read(void *opaque, hwaddr offset, uint64_t *val,
				  unsigned int size, MemTxAttrs attrs)
{
	RavbState *s = opaque;
	struct ravb_model *model = ravb_enter(s);
	bool aborts = ravb_model_access_aborts(model);

	*val = 0;
	if (size == 4 && offset % 4 == 0)
		*val = ravb_model_read(model, offset);
	else
		ravb_model_bad_access(model, offset, size, false);
	ravb_leave(s);
	return aborts ? MEMTX_ERROR : MEMTX_OK;
}

static MemTxResult ravb_mmio_write(void *opaque, hwaddr offset, uint64_t val,
				   unsigned int size, MemTxAttrs attrs)
{
	RavbState *s = opaque;
	struct ravb_model *model = ravb_enter(s);
	bool aborts = ravb_model_access_aborts(model);

	if (size == 4 && offset % 4 == 0)
		ravb_model_write(model, offset, val);
	else
		ravb_model_bad_access(model, offset, size, true);
	ravb_leave(s);
	return aborts ? MEMTX_ERROR : MEMTX_OK;
}

/* Accesses of any size reach the model, so that it can object to them. */
static const MemoryRegionOps ravb_mmio_ops = {
	.read_with_attrs = ravb_mmio_read,
	.write_with_attrs = ravb_mmio_write,
	.endianness = DEVICE_LITTLE_ENDIAN,
	.valid = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
	.impl = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
};

static uint64_t ravb_watch_read(void *opaque, hwaddr offset, unsigned int size)
{
	RavbWatch *w = opaque;
	RavbState *s = w->mac;
	uint8_t bytes[8] = { 0 };
	uint64_t val;

	address_space_read(&s->dma_as, w->addr + offset, MEMTXATTRS_UNSPECIFIED,
			   bytes, size);
	val = ldq_le_p(bytes);
	ravb_model_watched(ravb_enter(s), w->addr + offset, size, false, val);
	ravb_leave(s);
	return val;
}

static void ravb_watch_write(void *opaque, hwaddr offset, uint64_t val,
			     unsigned int size)
{
	RavbWatch *w = opaque;
	RavbState *s = w->mac;
	uint8_t bytes[8];

	stq_le_p(bytes, val);
	address_space_write(&s->dma_as, w->addr + offset,
			    MEMTXATTRS_UNSPECIFIED, bytes, size);
	ravb_model_watched(ravb_enter(s), w->addr + offset, size, true, val);
	ravb_leave(s);
}

static const MemoryRegionOps ravb_watch_ops = {
	.read = ravb_watch_read,
	.write = ravb_watch_write,
	.endianness = DEVICE_LITTLE_ENDIAN,
	.valid = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
	.impl = { .min_access_size = 1, .max_access_size = 8, .unaligned = true },
};

/*
 * The control page: through it the guest itself drives a measurement, so that
 * the host's timing has no part in it. The model gives its registers meaning.
 */

/* Set by the plugin profile.c, where it is loaded. */
void (*ravb_profile_mark)(uint32_t number);

static uint64_t ravb_control_read(void *opaque, hwaddr offset,
				  unsigned int size)
{
	RavbState *s = opaque;
	uint32_t val = ravb_model_control_read(ravb_enter(s), offset);

	ravb_leave(s);
	return val;
}

static void ravb_control_write(void *opaque, hwaddr offset, uint64_t val,
			       unsigned int size)
{
	RavbState *s = opaque;
	uint64_t executed = icount_enabled() ? icount_get_raw() : 0;

	if (ravb_model_control_write(ravb_enter(s), offset, val, executed) &&
	    ravb_profile_mark)
		ravb_profile_mark(val);
	ravb_leave(s);
}

static const MemoryRegionOps ravb_control_ops = {
	.read = ravb_control_read,
	.write = ravb_control_write,
	.endianness = DEVICE_LITTLE_ENDIAN,
	.valid = { .min_access_size = 4, .max_access_size = 4 },
	.impl = { .min_access_size = 4, .max_access_size = 4 },
};

static void ravb_timer(void *opaque)
{
	RavbState *s = opaque;

	ravb_model_timer(ravb_enter(s));
	ravb_leave(s);
}

static ssize_t ravb_receive(NetClientState *nc, const uint8_t *data, size_t len)
{
	RavbState *s = qemu_get_nic_opaque(nc);
	uint8_t padded[RAVB_MIN_FRAME] = { 0 };
	size_t size = len;

	/*
	 * Backends carry frames as their senders' stacks made them, but a wire
	 * has none shorter than this. Runts are injected by property.
	 */
	if (len < sizeof(padded)) {
		memcpy(padded, data, len);
		data = padded;
		size = sizeof(padded);
	}
	if (s->busy) {
		RavbFrame *frame = g_malloc(sizeof(*frame) + size);

		frame->len = size;
		memcpy(frame->data, data, size);
		QSIMPLEQ_INSERT_TAIL(&s->waiting, frame, next);
	} else {
		ravb_model_receive(ravb_enter(s), data, size);
		ravb_leave(s);
	}
	return len;
}

static NetClientInfo ravb_net_info = {
	.type = NET_CLIENT_DRIVER_NIC,
	.size = sizeof(NICState),
	.receive = ravb_receive,
};

static void ravb_set_power(RavbState *s, bool clock_on, bool reset)
{
	struct ravb_model *model = ravb_enter(s);

	ravb_model_set_clock(model, clock_on);
	ravb_model_set_reset(model, reset);
	ravb_leave(s);
}

/* Properties: one QOM property of type "str" for each of the model's. */

static void ravb_prop_get(Object *obj, Visitor *v, const char *name,
			  void *opaque, Error **errp)
{
	RavbState *s = RAVB(obj);
	char *text = ravb_model_get(ravb_enter(s), name);

	ravb_leave(s);
	if (!text) {
		error_setg(errp, "the model has no value for '%s'", name);
		return;
	}
	visit_type_str(v, name, &text, errp);
	ravb_model_free_text(text);
}

static void ravb_prop_set(Object *obj, Visitor *v, const char *name,
			  void *opaque, Error **errp)
{
	RavbState *s = RAVB(obj);
	const struct ravb_property *prop = opaque;
	g_autofree char *value = NULL;
	char *message;

	if (DEVICE(obj)->realized && !prop->at_runtime) {
		error_setg(errp, "'%s' cannot change any more", name);
		return;
	}
	if (!visit_type_str(v, name, &value, errp))
		return;
	message = ravb_model_set(ravb_enter(s), name, value);
	ravb_leave(s);
	if (message)
		error_setg(errp, "%s", message);
	ravb_model_free_text(message);
}

static void ravb_add_properties(ObjectClass *oc)
{
	const struct ravb_property *table;
	size_t n = ravb_model_properties(&table);

	for (size_t i = 0; i < n; i++) {
		const struct ravb_property *p = &table[i];

		object_class_property_add(oc, p->name, "str", ravb_prop_get,
					  p->settable ? ravb_prop_set : NULL,
					  NULL, (void *)p);
		object_class_property_set_description(oc, p->name,
						      p->description);
	}
}

/* Life cycle. */

static void ravb_init(Object *obj)
{
	RavbState *s = RAVB(obj);

	QSIMPLEQ_INIT(&s->waiting);
	s->model = ravb_model_new();
}

static void ravb_finalize(Object *obj)
{
	RavbState *s = RAVB(obj);

	ravb_model_free(s->model);
}

static void ravb_init_dma(RavbState *s)
{
	MemoryRegion *ram = current_machine->ram;

	memory_region_init(&s->dma_root, OBJECT(s), "ravb-dma", UINT64_MAX);
	memory_region_init_alias(&s->dma_ram, OBJECT(s), "ravb-dma-ram", ram, 0,
				 memory_region_size(ram));
	memory_region_add_subregion(&s->dma_root, ram->addr, &s->dma_ram);
	address_space_init(&s->dma_as, &s->dma_root, "ravb-dma");
	for (int i = 0; i < RAVB_WATCHES; i++) {
		s->watch[i].mac = s;
		memory_region_init_io(&s->watch[i].mr, OBJECT(s),
				      &ravb_watch_ops, &s->watch[i],
				      "ravb-watch", 1);
	}
}

static void ravb_realize(DeviceState *dev, Error **errp)
{
	RavbState *s = RAVB(dev);
	SysBusDevice *sbd = SYS_BUS_DEVICE(dev);
	const struct ravb_host host = {
		.opaque = s,
		.now = ravb_now,
		.dma_read = ravb_dma_read,
		.dma_write = ravb_dma_write,
		.set_irq = ravb_set_irq,
		.arm_timer = ravb_arm_timer,
		.transmit = ravb_transmit,
		.watch = ravb_watch,
		.unwatch_all = ravb_unwatch_all,
		.log = ravb_log,
	};

	if (s->cpg) {
		if (s->cpg_output >= RAVB_CPG_OUTPUTS ||
		    s->cpg->mac[s->cpg_output]) {
			error_setg(errp, "cpg-output %u does not exist or is taken",
				   s->cpg_output);
			return;
		}
		s->cpg->mac[s->cpg_output] = s;
	}

	memory_region_init_io(&s->mmio, OBJECT(s), &ravb_mmio_ops, s, TYPE_RAVB,
			      ravb_model_window(s->model));
	sysbus_init_mmio(sbd, &s->mmio);
	/* The MAC's lines, then the one of the PHY. */
	s->num_irqs = ravb_model_irqs(s->model) + 1;
	assert(s->num_irqs <= RAVB_MODEL_MAX_IRQS);
	for (unsigned int i = 0; i < s->num_irqs; i++)
		sysbus_init_irq(sbd, &s->irq[i]);

	ravb_init_dma(s);
	if (ravb_model_has_control(s->model)) {
		memory_region_init_io(&s->control, OBJECT(s), &ravb_control_ops,
				      s, "ravb-control", RAVB_CONTROL_WINDOW);
		memory_region_add_subregion(get_system_memory(), RAVB_CONTROL,
					    &s->control);
	}
	s->timer = timer_new_ns(QEMU_CLOCK_VIRTUAL, ravb_timer, s);
	qemu_macaddr_default_if_unset(&s->conf.macaddr);
	s->nic = qemu_new_nic(&ravb_net_info, &s->conf,
			      object_get_typename(OBJECT(dev)), dev->id,
			      &dev->mem_reentrancy_guard, s);
	qemu_format_nic_info_str(qemu_get_queue(s->nic), s->conf.macaddr.a);
	ravb_model_attach(s->model, &host);
}

static void ravb_reset_hold(Object *obj, ResetType type)
{
	RavbState *s = RAVB(obj);

	ravb_model_power_on(ravb_enter(s));
	ravb_leave(s);
}

static void ravb_reset_exit(Object *obj, ResetType type)
{
	RavbState *s = RAVB(obj);

	/* The clock generator decides, where there is one. */
	if (!s->cpg)
		ravb_set_power(s, true, false);
}

static const Property ravb_properties[] = {
	DEFINE_NIC_PROPERTIES(RavbState, conf),
	DEFINE_PROP_LINK("cpg", RavbState, cpg, TYPE_RAVB_CPG, RavbCpgState *),
	DEFINE_PROP_UINT32("cpg-output", RavbState, cpg_output, 0),
};

static void ravb_class_init(ObjectClass *oc, void *data)
{
	DeviceClass *dc = DEVICE_CLASS(oc);
	ResettableClass *rc = RESETTABLE_CLASS(oc);

	dc->desc = "Renesas Ethernet AVB or GbEth";
	dc->realize = ravb_realize;
	dc->hotpluggable = false;
	set_bit(DEVICE_CATEGORY_NETWORK, dc->categories);
	rc->phases.hold = ravb_reset_hold;
	rc->phases.exit = ravb_reset_exit;
	device_class_set_props(dc, ravb_properties);
	ravb_add_properties(oc);
}

/* The clock generator. */

static uint64_t ravb_cpg_mmio_read(void *opaque, hwaddr offset,
				   unsigned int size)
{
	RavbCpgState *s = opaque;

	return ravb_cpg_read(s->cpg, offset);
}

static void ravb_cpg_mmio_write(void *opaque, hwaddr offset, uint64_t val,
				unsigned int size)
{
	RavbCpgState *s = opaque;
	struct ravb_cpg_outputs out = ravb_cpg_write(s->cpg, offset, val);

	for (int i = 0; i < RAVB_CPG_OUTPUTS; i++)
		if (s->mac[i])
			ravb_set_power(s->mac[i], out.clock_on[i],
				       out.reset_asserted[i]);
}

static const MemoryRegionOps ravb_cpg_ops = {
	.read = ravb_cpg_mmio_read,
	.write = ravb_cpg_mmio_write,
	.endianness = DEVICE_LITTLE_ENDIAN,
	.valid = { .min_access_size = 4, .max_access_size = 4 },
	.impl = { .min_access_size = 4, .max_access_size = 4 },
};

static void ravb_cpg_init(Object *obj)
{
	RavbCpgState *s = RAVB_CPG(obj);

	s->cpg = ravb_cpg_new();
	memory_region_init_io(&s->mmio, obj, &ravb_cpg_ops, s, TYPE_RAVB_CPG,
			      RAVB_CPG_WINDOW);
	sysbus_init_mmio(SYS_BUS_DEVICE(obj), &s->mmio);
}

static void ravb_cpg_finalize(Object *obj)
{
	RavbCpgState *s = RAVB_CPG(obj);

	ravb_cpg_free(s->cpg);
}

static void ravb_cpg_reset_hold(Object *obj, ResetType type)
{
	RavbCpgState *s = RAVB_CPG(obj);

	ravb_cpg_power_on(s->cpg);
}

/* By now the MACs have seen their own reset, in whatever order. */
static void ravb_cpg_reset_exit(Object *obj, ResetType type)
{
	RavbCpgState *s = RAVB_CPG(obj);

	for (int i = 0; i < RAVB_CPG_OUTPUTS; i++)
		if (s->mac[i])
			ravb_set_power(s->mac[i], false, true);
}

static void ravb_cpg_class_init(ObjectClass *oc, void *data)
{
	DeviceClass *dc = DEVICE_CLASS(oc);
	ResettableClass *rc = RESETTABLE_CLASS(oc);

	dc->desc = "Renesas RZ/G2L clock generator, as far as Ethernet needs it";
	dc->hotpluggable = false;
	rc->phases.hold = ravb_cpg_reset_hold;
	rc->phases.exit = ravb_cpg_reset_exit;
}

/* `virt`, with a platform bus that takes these devices. */
#ifdef TARGET_RISCV64
#define RAVB_MACHINE_PARENT	MACHINE_TYPE_NAME("virt")
#else
#define RAVB_MACHINE_PARENT	MACHINE_TYPE_NAME("virt-10.0")
#endif

static void ravb_machine_class_init(ObjectClass *oc, void *data)
{
	MachineClass *mc = MACHINE_CLASS(oc);

	mc->desc = "virt with Renesas Ethernet on its platform bus";
	mc->alias = NULL;
	machine_class_allow_dynamic_sysbus_dev(mc, TYPE_RAVB);
	machine_class_allow_dynamic_sysbus_dev(mc, TYPE_RAVB_CPG);
}

static const TypeInfo ravb_types[] = {
	{
		.name = TYPE_RAVB,
		.parent = TYPE_DYNAMIC_SYS_BUS_DEVICE,
		.instance_size = sizeof(RavbState),
		.instance_init = ravb_init,
		.instance_finalize = ravb_finalize,
		.class_init = ravb_class_init,
	}, {
		.name = TYPE_RAVB_CPG,
		.parent = TYPE_DYNAMIC_SYS_BUS_DEVICE,
		.instance_size = sizeof(RavbCpgState),
		.instance_init = ravb_cpg_init,
		.instance_finalize = ravb_cpg_finalize,
		.class_init = ravb_cpg_class_init,
	}, {
		.name = MACHINE_TYPE_NAME("ravb-virt"),
		.parent = RAVB_MACHINE_PARENT,
		.class_init = ravb_machine_class_init,
	},
};

DEFINE_TYPES(ravb_types)
