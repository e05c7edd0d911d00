// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/streams: a source and a sink for sockets that a program has connected, so that the program spends no system call
 * on a segment or a datagram.
 *
 * A source writes zeros whenever the socket takes some; a sink discards data as they come. Each acts at the moment at
 * which a program that waits would be woken. For UDP, a source sends zeros at the times that it is given, and a sink
 * counts. All else stays the program's, the socket itself, too: options, errors, the end. A read of the device gives
 * the streams that have reached their goal, with the time; a poll tells when there are some. See TrafficGenerator and
 * KernelStreams in core/sockets; the latter has the structs of requests below.
 */
#include <linux/bvec.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/interrupt.h>
#include <linux/ktime.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/net.h>
#include <linux/poll.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <net/sock.h>
#include <net/tcp.h>
#include <net/transp_v6.h>
#include <net/udp.h>
#include <net/udp_tunnel.h>

#include "light_timer.h"

/* For a source or a sink: attaches it, or tells an attached one how far to go. The answer is how far it has come. */
struct stream_request {
	s32 socket;
	u32 number; /* by which the program knows it */
	u64 bytes; /* how far it is to go */
	u64 done, done_at_ns; /* CLOCK_MONOTONIC; 0 before */
	u32 window; /* for a sink: the bound of the receive window, 0 for none */
	u32 unused;
};

/* For a source of datagrams: when they are to leave, in order. It replaces what is left of the last order. */
struct datagrams_request {
	s32 socket;
	u32 number; /* by which the program knows it; it hears when the last has left */
	u64 times; /* address of CLOCK_MONOTONIC's, s64 */
	u64 late; /* address for s64: how many ns too late each datagram of the last order left */
	u32 count; /* of times; the answer is how many of the last order have left */
	u32 payload_bytes;
};

/* For a sink of datagrams: attaches it. The answer is how many have come. */
struct datagrams_count {
	s32 socket;
	u32 unused;
	u64 until_ns; /* CLOCK_MONOTONIC */
	u64 came, came_in_time;
};

struct stream_event {
	u64 done_at_ns;
	u32 number, unused;
};

#define STREAM_SEND _IOWR('s', 1, struct stream_request)
#define STREAM_RECEIVE _IOWR('s', 2, struct stream_request)
#define DATAGRAMS_SEND _IOWR('s', 3, struct datagrams_request)
#define DATAGRAMS_COUNT _IOWR('s', 4, struct datagrams_count)

#define WRITTEN_PAGES 16 /* that are written at once, as by a program */
#define TAUGHT_BYTES 65536 /* see stream_bound */
#define MOST_TIMES 4096 /* of an order of datagrams */

#ifndef MSG_SPLICE_PAGES /* before 6.5 they are copied */
#define MSG_SPLICE_PAGES 0
#define MSG_NO_SHARED_FRAGS 0
#endif

struct streams {
	struct list_head ends, finished;
	wait_queue_head_t waits;
};

struct stream_end {
	struct streams *streams; /* NULL once the device is closed */
	struct list_head with, finished;
	struct sock *sock;
	void (*destruct)(struct sock *sk);
	u64 bytes, done, done_at_ns;
	u32 number, window;
	bool sends, told, busy;
};

enum datagram_role { DATAGRAM_SOURCE = 1, DATAGRAM_SINK = 2 };

/* A source or a sink of datagrams; `bytes` and `done` count datagrams. */
struct datagram_end {
	struct stream_end end;
	enum datagram_role role;
	struct light_timer timer;
	struct tasklet_struct send; /* no packet is sent from a timer's interrupt itself */
	s64 *times; /* for those that have left: how late they were */
	u32 payload_bytes;
	u64 until_ns, in_time;
};

static DEFINE_SPINLOCK(streams_lock);
static struct bio_vec zeros[WRITTEN_PAGES];

static void stream_tell(struct stream_end *end)
{
	end->done_at_ns = ktime_get_ns();
	spin_lock_bh(&streams_lock);
	if (end->streams) {
		list_move_tail(&end->finished, &end->streams->finished);
		wake_up_poll(&end->streams->waits, EPOLLIN);
	}
	spin_unlock_bh(&streams_lock);
}

static void stream_finish(struct stream_end *end)
{
	if (end->done < end->bytes || end->told)
		return;
	end->told = true;
	stream_tell(end);
}

/* Errors stay with the socket, where the program finds them. */
static void stream_fill(struct stream_end *end)
{
	struct sock *sk = end->sock;

	if (end->busy)
		return;
	end->busy = true;
	while (end->done < end->bytes && !sk->sk_err && !(sk->sk_shutdown & SEND_SHUTDOWN)) {
		struct msghdr message = {
			.msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL | MSG_SPLICE_PAGES | MSG_NO_SHARED_FRAGS,
		};
		size_t most = min_t(u64, end->bytes - end->done, WRITTEN_PAGES * PAGE_SIZE);
		int written;

		iov_iter_bvec(&message.msg_iter, WRITE, zeros, WRITTEN_PAGES, most);
		written = tcp_sendmsg_locked(sk, &message, most);
		if (written > 0)
			end->done += written;
		if (written < (int)most)
			break;
	}
	end->busy = false;
}

/* From the first full segment the kernel learns how much memory a packet takes, and sets the window's bound anew. */
static void stream_bound(struct stream_end *end, u64 before)
{
	if (end->window && before < TAUGHT_BYTES)
		tcp_set_window_clamp(end->sock, end->window);
}

static int stream_discard(read_descriptor_t *descriptor, struct sk_buff *skb, unsigned int offset, size_t size)
{
	return size;
}

static void stream_drain(struct stream_end *end)
{
	read_descriptor_t descriptor = { .count = 1 };
	u64 before = end->done;
	int taken;

	if (end->busy)
		return;
	end->busy = true;
	while ((taken = tcp_read_sock(end->sock, &descriptor, stream_discard)) > 0)
		end->done += taken;
	if (end->done > before)
		stream_bound(end, before);
	end->busy = false;
	stream_finish(end);
}

/* Waits until half of the room is free, as for a program: each write is pushed, and a push is answered at once. */
static void stream_write_space(struct sock *sk)
{
	if (!__sk_stream_is_writeable(sk, 1) || !sk->sk_socket)
		return;
	clear_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
	stream_fill(sk->sk_user_data);
}

static void stream_data_ready(struct sock *sk)
{
	stream_drain(sk->sk_user_data);
}

static void stream_forget(struct stream_end *end)
{
	spin_lock_bh(&streams_lock);
	if (end->streams)
		list_del(&end->with);
	list_del_init(&end->finished);
	spin_unlock_bh(&streams_lock);
}

static void stream_init(struct stream_end *end, struct streams *streams, struct sock *sk)
{
	end->sock = sk;
	end->streams = streams;
	end->destruct = sk->sk_destruct;
	INIT_LIST_HEAD(&end->finished);
	spin_lock_bh(&streams_lock);
	list_add_tail(&end->with, &streams->ends);
	spin_unlock_bh(&streams_lock);
	/* From now on the socket also sends from interrupts. */
	sk->sk_allocation = GFP_ATOMIC;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
	sk->sk_use_task_frag = false;
#endif
}

static void stream_destruct(struct sock *sk)
{
	struct stream_end *end = sk->sk_user_data;
	void (*destruct)(struct sock *sk) = end->destruct;

	stream_forget(end);
	sk->sk_user_data = NULL;
	kfree(end);
	destruct(sk);
}

static int stream_attach(struct streams *streams, struct sock *sk, bool sends)
{
	struct stream_end *end;

	if (sk->sk_user_data)
		return -EBUSY;
	if (sk->sk_state == TCP_LISTEN || sk->sk_state == TCP_CLOSE)
		return -ENOTCONN;
	end = kzalloc(sizeof(*end), GFP_KERNEL);
	if (!end)
		return -ENOMEM;
	end->sends = sends;
	stream_init(end, streams, sk);
	write_lock_bh(&sk->sk_callback_lock);
	sk->sk_user_data = end;
	sk->sk_destruct = stream_destruct;
	if (sends)
		sk->sk_write_space = stream_write_space;
	else
		sk->sk_data_ready = stream_data_ready;
	write_unlock_bh(&sk->sk_callback_lock);
	return 0;
}

static int stream_go(struct streams *streams, struct sock *sk, struct stream_request *wanted, bool sends)
{
	struct stream_end *end;
	int error = 0;

	lock_sock(sk);
	if (sk->sk_destruct != stream_destruct)
		error = stream_attach(streams, sk, sends);
	end = sk->sk_user_data;
	if (!error && (end->streams != streams || end->sends != sends))
		error = -EBUSY;
	if (!error) {
		end->number = wanted->number;
		end->window = wanted->window;
		end->bytes = wanted->bytes;
		if (sends)
			stream_fill(end);
		else
			stream_drain(end);
		wanted->done = end->done;
		wanted->done_at_ns = end->done_at_ns;
	}
	release_sock(sk);
	return error;
}

static void datagrams_send(struct tasklet_struct *tasklet)
{
	struct datagram_end *source = container_of(tasklet, struct datagram_end, send);
	struct stream_end *end = &source->end;
	struct sock *sk = end->sock;

	while (end->done < end->bytes) {
		struct msghdr message = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
		s64 late = ktime_get_ns() - source->times[end->done];

		if (late < 0) {
			light_timer_set(&source->timer, source->times[end->done]);
			return;
		}
		source->times[end->done++] = late;
		iov_iter_bvec(&message.msg_iter, WRITE, zeros, WRITTEN_PAGES, source->payload_bytes);
		/* A datagram that a full buffer refuses is lost, as with a program that goes on. */
		sk->sk_prot->sendmsg(sk, &message, source->payload_bytes);
		if (end->done == end->bytes)
			stream_tell(end);
	}
}

static void datagrams_ring(struct light_timer *timer)
{
	tasklet_schedule(&container_of(timer, struct datagram_end, timer)->send);
}

static int datagrams_came(struct sock *sk, struct sk_buff *skb)
{
	struct datagram_end *sink = rcu_dereference_sk_user_data(sk);

	sink->end.done++;
	sink->in_time += ktime_get_ns() <= sink->until_ns;
	consume_skb(skb);
	return 0;
}

static void datagrams_close(struct sock *sk)
{
	struct datagram_end *closed = sk->sk_user_data;

	light_timer_stop(&closed->timer);
	tasklet_kill(&closed->send);
}

static void datagrams_destruct(struct sock *sk)
{
	struct datagram_end *ended = sk->sk_user_data;
	void (*destruct)(struct sock *sk) = ended->end.destruct;

	stream_forget(&ended->end);
	sk->sk_user_data = NULL;
	kfree(ended->times);
	kfree(ended);
	destruct(sk);
}

/* Returns the end of the socket, and attaches one where there is none yet. */
static struct datagram_end *datagrams_of(struct streams *streams, struct socket *sock, enum datagram_role role)
{
	struct udp_tunnel_sock_cfg hooks = { .encap_type = 1, .encap_destroy = datagrams_close };
	struct sock *sk = sock->sk;
	struct datagram_end *made;

	if (sk->sk_destruct == datagrams_destruct) {
		made = sk->sk_user_data;
		return made->end.streams == streams && made->role == role ? made : ERR_PTR(-EBUSY);
	}
	if (sk->sk_user_data)
		return ERR_PTR(-EBUSY);
	if (sk->sk_state != TCP_ESTABLISHED)
		return ERR_PTR(-ENOTCONN);
	made = kzalloc(sizeof(*made), GFP_KERNEL);
	if (!made)
		return ERR_PTR(-ENOMEM);
	made->role = role;
	light_timer_init(&made->timer, datagrams_ring);
	tasklet_setup(&made->send, datagrams_send);
	stream_init(&made->end, streams, sk);
	hooks.sk_user_data = made;
	if (role == DATAGRAM_SINK)
		hooks.encap_rcv = datagrams_came;
	setup_udp_tunnel_sock(sock_net(sk), sock, &hooks);
	sk->sk_destruct = datagrams_destruct;
	return made;
}

static int datagrams_order(struct streams *streams, struct socket *sock, struct datagrams_request *wanted)
{
	struct datagram_end *source;
	s64 *times;
	u32 left;
	int error;

	if (wanted->count > MOST_TIMES || wanted->payload_bytes > WRITTEN_PAGES * PAGE_SIZE)
		return -EINVAL;
	source = datagrams_of(streams, sock, DATAGRAM_SOURCE);
	if (IS_ERR(source))
		return PTR_ERR(source);
	times = memdup_array_user((void __user *)wanted->times, wanted->count, sizeof(*times));
	if (IS_ERR(times))
		return PTR_ERR(times);
	local_bh_disable();
	light_timer_stop(&source->timer);
	swap(times, source->times);
	left = source->end.done;
	source->end.done = 0;
	source->end.bytes = wanted->count;
	source->end.number = wanted->number;
	source->payload_bytes = wanted->payload_bytes;
	if (wanted->count)
		tasklet_schedule(&source->send);
	local_bh_enable();
	wanted->count = left;
	error = copy_to_user((void __user *)wanted->late, times, left * sizeof(*times)) ? -EFAULT : 0;
	kfree(times);
	return error;
}

static int datagrams_count(struct streams *streams, struct socket *sock, struct datagrams_count *wanted)
{
	struct datagram_end *sink = datagrams_of(streams, sock, DATAGRAM_SINK);

	if (IS_ERR(sink))
		return PTR_ERR(sink);
	sink->until_ns = wanted->until_ns;
	wanted->came = sink->end.done;
	wanted->came_in_time = sink->in_time;
	return 0;
}

static bool streams_take(struct sock *sk, unsigned int what)
{
	if (what == DATAGRAMS_SEND || what == DATAGRAMS_COUNT)
		return sk->sk_prot == &udp_prot || sk->sk_prot == &udpv6_prot;
	return sk->sk_prot == &tcp_prot || sk->sk_prot == &tcpv6_prot;
}

static long streams_ioctl(struct file *file, unsigned int what, unsigned long at)
{
	struct streams *streams = file->private_data;
	union {
		s32 socket;
		struct stream_request stream;
		struct datagrams_request datagrams;
		struct datagrams_count count;
	} wanted;
	struct socket *sock;
	int error;

	if (what != STREAM_SEND && what != STREAM_RECEIVE && what != DATAGRAMS_SEND && what != DATAGRAMS_COUNT)
		return -ENOTTY;
	if (copy_from_user(&wanted, (void __user *)at, _IOC_SIZE(what)))
		return -EFAULT;
	sock = sockfd_lookup(wanted.socket, &error);
	if (!sock)
		return error;
	if (!streams_take(sock->sk, what))
		error = -EOPNOTSUPP;
	else if (what == DATAGRAMS_SEND)
		error = datagrams_order(streams, sock, &wanted.datagrams);
	else if (what == DATAGRAMS_COUNT)
		error = datagrams_count(streams, sock, &wanted.count);
	else
		error = stream_go(streams, sock->sk, &wanted.stream, what == STREAM_SEND);
	sockfd_put(sock);
	if (!error && copy_to_user((void __user *)at, &wanted, _IOC_SIZE(what)))
		error = -EFAULT;
	return error;
}

static ssize_t streams_read(struct file *file, char __user *to, size_t size, loff_t *at)
{
	struct streams *streams = file->private_data;
	size_t done = 0;

	while (size - done >= sizeof(struct stream_event)) {
		struct stream_event event = {};
		struct stream_end *end;

		spin_lock_bh(&streams_lock);
		end = list_first_entry_or_null(&streams->finished, struct stream_end, finished);
		if (end) {
			list_del_init(&end->finished);
			event.number = end->number;
			event.done_at_ns = end->done_at_ns;
		}
		spin_unlock_bh(&streams_lock);
		if (!end)
			break;
		if (copy_to_user(to + done, &event, sizeof(event)))
			return -EFAULT;
		done += sizeof(event);
	}
	return done;
}

static __poll_t streams_poll(struct file *file, poll_table *table)
{
	struct streams *streams = file->private_data;

	poll_wait(file, &streams->waits, table);
	return list_empty(&streams->finished) ? 0 : EPOLLIN;
}

static int streams_open(struct inode *inode, struct file *file)
{
	struct streams *streams = kzalloc(sizeof(*streams), GFP_KERNEL);

	if (!streams)
		return -ENOMEM;
	INIT_LIST_HEAD(&streams->ends);
	INIT_LIST_HEAD(&streams->finished);
	init_waitqueue_head(&streams->waits);
	file->private_data = streams;
	return 0;
}

static int streams_release(struct inode *inode, struct file *file)
{
	struct streams *streams = file->private_data;
	struct stream_end *end, *next;

	spin_lock_bh(&streams_lock);
	list_for_each_entry_safe(end, next, &streams->ends, with) {
		list_del(&end->with);
		list_del_init(&end->finished);
		end->streams = NULL;
	}
	spin_unlock_bh(&streams_lock);
	kfree(streams);
	return 0;
}

static const struct file_operations streams_operations = {
	.owner = THIS_MODULE,
	.open = streams_open,
	.release = streams_release,
	.read = streams_read,
	.poll = streams_poll,
	.unlocked_ioctl = streams_ioctl,
};

static struct miscdevice streams_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "streams",
	.fops = &streams_operations,
	.mode = 0600,
};

static int __init streams_init(void)
{
	int i;

	BUILD_BUG_ON(sizeof(struct stream_request) != 40 || sizeof(struct stream_event) != 16);
	BUILD_BUG_ON(sizeof(struct datagrams_request) != 32 || sizeof(struct datagrams_count) != 32);
	for (i = 0; i < WRITTEN_PAGES; i++) {
		zeros[i].bv_page = ZERO_PAGE(0);
		zeros[i].bv_len = PAGE_SIZE;
	}
	return misc_register(&streams_device);
}
device_initcall(streams_init);
