/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NETREPRO_LIGHT_TIMER_H
#define NETREPRO_LIGHT_TIMER_H
#include <linux/timerqueue.h>
#include <linux/types.h>

/* A timer of virtual time that costs a fraction of the kernel's own; `ring` is called in its interrupt. */
struct light_timer {
	struct timerqueue_node node;
	void (*ring)(struct light_timer *timer);
};

void light_timer_init(struct light_timer *timer, void (*ring)(struct light_timer *timer));
void light_timer_set(struct light_timer *timer, u64 at_ns); /* replaces the time that it has */
void light_timer_stop(struct light_timer *timer);
#endif
