/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef NETREPRO_STEP_H
#define NETREPRO_STEP_H
#include <net/pkt_sched.h>

/* Whether the queue is a "step" whose marks and room do not depend on when packets leave it. */
bool step_decides_alone(struct Qdisc *sch);
#endif
