/* SPDX-License-Identifier: GPL-2.0 */
/*
 * C interface of the device model (tests/model, built as a static library).
 *
 * The model never calls back into itself: every host callback may be called
 * from inside any ravb_model_*() call, and must not call ravb_model_*() on
 * the same model before that call has returned.
 */
#ifndef RAVB_MODEL_H
#define RAVB_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ravb_model;
struct ravb_cpg;

/* The PHY's own interrupt line follows the lines of the MAC. */
#define RAVB_MODEL_MAX_IRQS	32
#define RAVB_MODEL_NO_DEADLINE	UINT64_MAX

/* What the device needs from the machine around it. */
struct ravb_host {
	void *opaque;
	/* Virtual time in nanoseconds. */
	uint64_t (*now)(void *opaque);
	/* Guest memory, seen from the bus. Returns false on a bus error. */
	bool (*dma_read)(void *opaque, uint64_t addr, void *buf, size_t len);
	bool (*dma_write)(void *opaque, uint64_t addr, const void *buf,
			  size_t len);
	/* Level of interrupt line @line (0 = first MAC line). */
	void (*set_irq)(void *opaque, unsigned int line, bool level);
	/* Call ravb_model_timer() at virtual time @deadline; replaces the last one. */
	void (*arm_timer)(void *opaque, uint64_t deadline);
	/* One frame leaves on the wire, without FCS. */
	void (*transmit)(void *opaque, const uint8_t *frame, size_t len);
	/* Watch windows: forward CPU accesses of [addr, addr + len) to the model. */
	void (*watch)(void *opaque, uint64_t addr, uint64_t len);
	void (*unwatch_all)(void *opaque);
	/* One line for the log (rule violations, traces). */
	void (*log)(void *opaque, const char *line);
};

/* Properties: one table serves -device, qom-get, qom-set and the documentation. */
struct ravb_property {
	const char *name;
	const char *description;
	bool settable;		/* false: result only */
	bool at_runtime;	/* true: may be set while the machine runs */
};

size_t ravb_model_properties(const struct ravb_property **table);

struct ravb_model *ravb_model_new(void);
void ravb_model_free(struct ravb_model *model);
/* Before the first access; takes a copy of @host. */
void ravb_model_attach(struct ravb_model *model, const struct ravb_host *host);

/*
 * Values are text: numbers (0x… or decimal), on/off, a choice, or JSON.
 * ravb_model_set() returns NULL, or a message to be freed by
 * ravb_model_free_text(). ravb_model_get() returns NULL for an unknown name.
 */
char *ravb_model_set(struct ravb_model *model, const char *name,
		     const char *value);
char *ravb_model_get(struct ravb_model *model, const char *name);
void ravb_model_free_text(char *text);

/*
 * What the variant chosen by property looks like to the machine. The number of
 * interrupts is that of the MAC lines; the line of that number is the PHY's.
 */
uint64_t ravb_model_window(const struct ravb_model *model);
unsigned int ravb_model_irqs(const struct ravb_model *model);

uint32_t ravb_model_read(struct ravb_model *model, uint64_t offset);
void ravb_model_write(struct ravb_model *model, uint64_t offset, uint32_t val);
/*
 * True if a register access at this moment ends in a bus error (clk-off=abort).
 * Make the access all the same, so that it is counted, then report the error.
 */
bool ravb_model_access_aborts(const struct ravb_model *model);
/* An access that is not 32 bits wide or not aligned. */
void ravb_model_bad_access(struct ravb_model *model, uint64_t offset,
			   unsigned int size, bool is_write);
void ravb_model_timer(struct ravb_model *model);
/* One frame arrives from the wire, without FCS. Always accepted. */
void ravb_model_receive(struct ravb_model *model, const uint8_t *frame,
			size_t len);
/*
 * CPU access to a watched page; memory itself is accessed by the caller, and
 * already holds the result of a store. @value in guest (little-endian) order.
 */
void ravb_model_watched(struct ravb_model *model, uint64_t addr,
			unsigned int size, bool is_write, uint64_t value);
/*
 * The control page (property "control"), which the guest uses to drive a
 * measurement. ravb_model_control_write() gets the number of instructions
 * executed so far, and returns true if the write was a mark.
 */
bool ravb_model_has_control(const struct ravb_model *model);
uint32_t ravb_model_control_read(struct ravb_model *model, uint64_t offset);
bool ravb_model_control_write(struct ravb_model *model, uint64_t offset,
			      uint32_t val, uint64_t executed);
/* Power-on reset of the whole machine. */
void ravb_model_power_on(struct ravb_model *model);
/* From the clock generator. */
void ravb_model_set_clock(struct ravb_model *model, bool on);
void ravb_model_set_reset(struct ravb_model *model, bool asserted);

/* Clock generator (renesas,r9a07g044-cpg): clocks and resets of two MACs. */
struct ravb_cpg_outputs {
	bool clock_on[2];
	bool reset_asserted[2];
};

struct ravb_cpg *ravb_cpg_new(void);
void ravb_cpg_free(struct ravb_cpg *cpg);
void ravb_cpg_power_on(struct ravb_cpg *cpg);
uint32_t ravb_cpg_read(struct ravb_cpg *cpg, uint64_t offset);
/* Returns the outputs after the write. */
struct ravb_cpg_outputs ravb_cpg_write(struct ravb_cpg *cpg, uint64_t offset,
				       uint32_t val);

#endif
