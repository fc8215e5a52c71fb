// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
//
// Stacks of watched processes: of the thread that runs, at each tick of a CPU's clock (`stacks_running`), and of all threads
// that do not, whenever user space reads the iterator (`stacks_waiting`). Loaded by `src/stacks`, which has the other half of
// every layout here; `scripts/bpf` compiles it.
//
// Of user space a stack is copied as it lies in memory: servers are built without frame pointers, and who knows how to unwind
// them is in user space.

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

typedef __u8 u8;
typedef __u32 u32;
typedef __u64 u64;
typedef _Bool bool;

// Helpers for tracing are for programs that say so.
char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define PROCESSES 8192
#define KERNEL_FRAMES 64
// libuv alone has 12 KiB of events on it.
#define STACK (32 * 1024)
// Copied piece by piece, so that one that ends early is not lost.
#define PIECE 1024
#define RING (32 * 1024 * 1024)

#define PF_EXITING 4

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct pt_regs {
	unsigned long bp, ip, sp;
};
struct task_struct {
	int pid, tgid, on_cpu;
	unsigned int flags;
	unsigned int __state;
	void *mm;
	char comm[16];
};
struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
};
struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};
#pragma clang attribute pop

enum { RUNNING, RUNNABLE, WAITING };

struct stack {
	u64 kind;
	u32 pid, tid;
	char name[16];
	// Where it left user space.
	u64 ip, sp, bp;
	// Frames of the kernel, the innermost first, and bytes of the user stack from `sp` on.
	u64 frames, bytes;
	u64 kernel[KERNEL_FRAMES];
	u8 user[STACK];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROCESSES);
	__type(key, u32);
	__type(value, u64);
} watched SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING);
} stacks SEC(".maps");

// Of running and of waiting threads: how many stacks were seen, and for how many of these there was no room.
enum { SEEN, LOST, COUNTS };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * COUNTS);
	__type(key, u32);
	__type(value, u64);
} counts SEC(".maps");

static void count(u32 kind, u32 what)
{
	u32 key = (kind == RUNNING ? 0 : COUNTS) + what;
	u64 *n = bpf_map_lookup_elem(&counts, &key);

	if (n)
		__sync_fetch_and_add(n, 1);
}

static struct stack *begin(struct task_struct *task, u64 kind)
{
	u32 pid = task->tgid;
	struct pt_regs *regs;
	struct stack *stack;

	if (!bpf_map_lookup_elem(&watched, &pid) || !task->mm || task->flags & PF_EXITING)
		return 0;
	count(kind, SEEN);
	stack = bpf_ringbuf_reserve(&stacks, sizeof(*stack), 0);
	if (!stack) {
		count(kind, LOST);
		return 0;
	}
	stack->kind = kind;
	stack->pid = pid;
	stack->tid = task->pid;
	BPF_CORE_READ_STR_INTO(&stack->name, task, comm);
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	stack->ip = BPF_CORE_READ(regs, ip);
	stack->sp = BPF_CORE_READ(regs, sp);
	stack->bp = BPF_CORE_READ(regs, bp);
	return stack;
}

// How much of a piece at `at` lies before the next border of pieces: no page ends within it.
static u32 piece(u64 at)
{
	return PIECE - (at & (PIECE - 1));
}

static u64 frames(long bytes)
{
	return bytes > 0 ? bytes / sizeof(u64) : 0;
}

SEC("perf_event")
int stacks_running(void *ctx)
{
	struct stack *stack = begin(bpf_get_current_task_btf(), RUNNING);
	u64 done = 0;

	if (!stack)
		return 0;
	stack->frames = frames(bpf_get_stack(ctx, stack->kernel, sizeof(stack->kernel), 0));
	for (int i = 0; i <= STACK / PIECE; i++) {
		u32 length = piece(stack->sp + done);

		if (done > STACK - PIECE || length > PIECE)
			break;
		if (bpf_probe_read_user(stack->user + done, length, (void *)(stack->sp + done)))
			break;
		done += length;
	}
	stack->bytes = done;
	bpf_ringbuf_submit(stack, 0);
	return 0;
}

SEC("iter.s/task")
int stacks_waiting(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	char mark = '.';
	struct stack *stack;
	u64 done = 0;

	// One that runs is seen by the clock of its CPU.
	if (!task || task->on_cpu)
		return 0;
	stack = begin(task, task->__state ? WAITING : RUNNABLE);
	if (!stack)
		return 0;
	stack->frames = frames(bpf_get_task_stack(task, stack->kernel, sizeof(stack->kernel), 0));
	for (int i = 0; i <= STACK / PIECE; i++) {
		u32 length = piece(stack->sp + done);

		if (done > STACK - PIECE || length > PIECE)
			break;
		if (bpf_copy_from_user_task(stack->user + done, length, (void *)(stack->sp + done), task, 0))
			break;
		done += length;
	}
	stack->bytes = done;
	// It ran meanwhile: what was copied is not of one instant.
	if (task->on_cpu) {
		bpf_ringbuf_discard(stack, 0);
		return 0;
	}
	bpf_ringbuf_submit(stack, 0);
	// So that who reads comes back now and then, and makes room.
	bpf_seq_write(ctx->meta->seq, &mark, sizeof(mark));
	return 0;
}
