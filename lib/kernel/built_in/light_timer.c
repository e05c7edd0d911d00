// SPDX-License-Identifier: GPL-2.0-only
/*
 * All light timers share one event of time travel, which is for the next of them. A timer of the kernel's own for each
 * would cost several times as much. The kernel's timers come a nanosecond after their time, and so do these.
 */
#include <linux/init.h>
#include <linux/irqflags.h>
#include <linux/ktime.h>
#include <linux/minmax.h>
#include <linux/timekeeping.h>
#include <linux/time-internal.h>

#include "light_timer.h"

static struct timerqueue_head timers;
static struct time_travel_event next;

static void light_timer_set_event(void)
{
	struct timerqueue_node *first = timerqueue_getnext(&timers);

	time_travel_del_event(&next);
	if (first)
		time_travel_add_event_rel(&next, max_t(s64, first->expires - ktime_get(), 1) + 1);
}

static void light_timer_event(struct time_travel_event *event)
{
	ktime_t now = ktime_get();
	struct timerqueue_node *first;

	while ((first = timerqueue_getnext(&timers)) && first->expires <= now) {
		struct light_timer *timer = container_of(first, struct light_timer, node);

		timerqueue_del(&timers, first);
		timer->ring(timer);
	}
	light_timer_set_event();
}

void light_timer_init(struct light_timer *timer, void (*ring)(struct light_timer *timer))
{
	timerqueue_init(&timer->node);
	timer->ring = ring;
}

void light_timer_stop(struct light_timer *timer)
{
	unsigned long flags;

	local_irq_save(flags);
	if (!RB_EMPTY_NODE(&timer->node.node)) {
		bool was_first = timerqueue_getnext(&timers) == &timer->node;

		timerqueue_del(&timers, &timer->node);
		if (was_first)
			light_timer_set_event();
	}
	local_irq_restore(flags);
}

void light_timer_set(struct light_timer *timer, u64 at_ns)
{
	struct timerqueue_node *node = &timer->node;
	unsigned long flags;

	local_irq_save(flags);
	if (RB_EMPTY_NODE(&node->node) || node->expires != at_ns) {
		bool was_first = timerqueue_getnext(&timers) == node;

		if (!RB_EMPTY_NODE(&node->node))
			timerqueue_del(&timers, node);
		node->expires = at_ns;
		if (timerqueue_add(&timers, node) || was_first)
			light_timer_set_event();
	}
	local_irq_restore(flags);
}

static int __init light_timer_module_init(void)
{
	timerqueue_init_head(&timers);
	time_travel_set_event_fn(&next, light_timer_event);
	return 0;
}
core_initcall(light_timer_module_init);
