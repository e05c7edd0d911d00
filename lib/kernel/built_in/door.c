// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/door: two descriptors of the process that this kernel is, named on its command line (door=READ,WRITE).
 *
 * A read blocks the whole kernel until the outside has written. So virtual time stands still while the outside thinks;
 * with a console it would jump.
 */
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <os.h>

#define DOOR_BYTES (1 << 16)

static int read_from = -1, write_to = -1;

static int __init door_setup(char *text)
{
	return sscanf(text, "%d,%d", &read_from, &write_to) == 2;
}
__setup("door=", door_setup);

static ssize_t door_read(struct file *file, char __user *to, size_t size, loff_t *at)
{
	size_t most = min_t(size_t, size, DOOR_BYTES);
	void *bytes = kmalloc(most, GFP_KERNEL);
	ssize_t got;

	if (!bytes)
		return -ENOMEM;
	do
		got = os_read_file(read_from, bytes, most);
	while (got == -EINTR);
	if (got > 0 && copy_to_user(to, bytes, got))
		got = -EFAULT;
	kfree(bytes);
	return got;
}

static ssize_t door_write(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	size_t most = min_t(size_t, size, DOOR_BYTES);
	void *bytes = memdup_user(from, most);
	ssize_t done;

	if (IS_ERR(bytes))
		return PTR_ERR(bytes);
	do
		done = os_write_file(write_to, bytes, most);
	while (done == -EINTR);
	kfree(bytes);
	return done;
}

static const struct file_operations door_operations = {
	.owner = THIS_MODULE,
	.read = door_read,
	.write = door_write,
};

static struct miscdevice door = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "door",
	.fops = &door_operations,
	.mode = 0600,
};

static int __init door_init(void)
{
	return misc_register(&door);
}
device_initcall(door_init);
