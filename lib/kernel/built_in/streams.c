// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/streams: a source and a sink for sockets of TCP that a program has connected, so that no system call of its own
 * is spent on a segment.
 *
 * A source writes zeros whenever the socket takes some, a sink discards what has come as it comes: each in the moment in
 * which a program that waits would be woken. All else, and the socket itself, stays the program's: options, errors, the
 * end. A read of the device gives the ends of streams that have come as far as they were to go, with the time; a poll
 * tells when there are some. See TrafficGenerator in core/sockets, whose struct StreamRequest is the one below.
 */
#include <linux/bvec.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/init.h>
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

/* Of both: attaches the end, or tells one that is attached how far it has to go; answers how far it has come. */
struct stream_request {
	s32 socket;
	u32 number; /* by which the program knows it */
	u64 bytes; /* how far it is to go */
	u64 done, done_at_ns; /* CLOCK_MONOTONIC; 0 before */
	u32 window; /* of a sink: what bounds the receive window, 0 for nothing */
	u32 unused;
};

struct stream_event {
	u64 done_at_ns;
	u32 number, unused;
};

#define STREAM_SEND _IOWR('s', 1, struct stream_request)
#define STREAM_RECEIVE _IOWR('s', 2, struct stream_request)

#define WRITTEN_PAGES 16 /* at once: what a program writes */
#define TAUGHT_BYTES 65536 /* see stream_bound */

#ifndef MSG_SPLICE_PAGES /* before 6.5 they are copied */
#define MSG_SPLICE_PAGES 0
#define MSG_NO_SHARED_FRAGS 0
#endif

struct streams {
	struct list_head ends, finished;
	wait_queue_head_t waits;
};

struct stream_end {
	struct streams *streams; /* NULL once nobody hears of it */
	struct list_head with, finished;
	struct sock *sock;
	void (*destruct)(struct sock *sk);
	u64 bytes, done, done_at_ns;
	u32 number, window;
	bool sends, told, busy;
};

static DEFINE_SPINLOCK(streams_lock);
static struct bio_vec zeros[WRITTEN_PAGES];

static void stream_finish(struct stream_end *end)
{
	if (end->done < end->bytes || end->told)
		return;
	end->told = true;
	end->done_at_ns = ktime_get_ns();
	spin_lock_bh(&streams_lock);
	if (end->streams) {
		list_add_tail(&end->finished, &end->streams->finished);
		wake_up_poll(&end->streams->waits, EPOLLIN);
	}
	spin_unlock_bh(&streams_lock);
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

/* The first full segment teaches the kernel what a packet weighs, and it sets the window's bound anew. */
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

/* Once half of its room is free, as a program that waits is woken: each write pushes, and a push is answered at once. */
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

static void stream_destruct(struct sock *sk)
{
	struct stream_end *end = sk->sk_user_data;
	void (*destruct)(struct sock *sk) = end->destruct;

	spin_lock_bh(&streams_lock);
	if (end->streams)
		list_del(&end->with);
	list_del_init(&end->finished);
	spin_unlock_bh(&streams_lock);
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
	end->sock = sk;
	end->sends = sends;
	end->streams = streams;
	end->destruct = sk->sk_destruct;
	INIT_LIST_HEAD(&end->finished);
	spin_lock_bh(&streams_lock);
	list_add_tail(&end->with, &streams->ends);
	spin_unlock_bh(&streams_lock);
	/* From now on it also sends from interrupts. */
	sk->sk_allocation = GFP_ATOMIC;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
	sk->sk_use_task_frag = false;
#endif
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

static long streams_ioctl(struct file *file, unsigned int what, unsigned long at)
{
	struct stream_request wanted;
	struct socket *sock;
	int error;

	if (what != STREAM_SEND && what != STREAM_RECEIVE)
		return -ENOTTY;
	if (copy_from_user(&wanted, (void __user *)at, sizeof(wanted)))
		return -EFAULT;
	sock = sockfd_lookup(wanted.socket, &error);
	if (!sock)
		return error;
	if (sock->sk->sk_prot != &tcp_prot && sock->sk->sk_prot != &tcpv6_prot)
		error = -EOPNOTSUPP;
	else
		error = stream_go(file->private_data, sock->sk, &wanted, what == STREAM_SEND);
	sockfd_put(sock);
	if (!error && copy_to_user((void __user *)at, &wanted, sizeof(wanted)))
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
	for (i = 0; i < WRITTEN_PAGES; i++) {
		zeros[i].bv_page = ZERO_PAGE(0);
		zeros[i].bv_len = PAGE_SIZE;
	}
	return misc_register(&streams_device);
}
device_initcall(streams_init);
