// SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only
//
// What watched processes ask of the kernel, and what their threads do with their time. Loaded by `src/inside`, which has the
// other half of every layout here; `scripts/bpf` compiles it.
//
// Everything is a cumulative counter: user space takes differences. Values are arrays of 64-bit words on both sides.

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

typedef __u8 u8;
typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;
typedef _Bool bool;

// Helpers for tracing are for programs that say so.
char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define PARTIES 16
// System calls by number; those from FUTEX on are not numbers of the kernel, but what a futex call was for.
#define CALLS 512
#define FUTEX 500
#define UNKNOWN 511
#define PROCESSES 8192
#define THREADS 32768
#define NAMES 2048

// Numbers of x86-64.
#define NR_RT_SIGRETURN 15
#define NR_RECVFROM 45
#define NR_RECVMSG 47
#define NR_CLONE 56
#define NR_FORK 57
#define NR_VFORK 58
#define NR_FUTEX 202
#define NR_CLONE3 435

#define EAGAIN 11
#define FUTEX_COMMAND 127
#define MSG_PEEK 2
#define TASK_UNINTERRUPTIBLE 2
#define TASK_DEAD 128
#define PF_EXITING 4
#define TS_COMPAT 2

// As much of the kernel's types as is read here; where it lies in them, the running kernel's BTF says.
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct pt_regs {
	unsigned long r10, dx, si, orig_ax;
};
struct atomic___dyno {
	int counter;
};
struct signal_struct {
	struct atomic___dyno live;
};
struct thread_info {
	u32 status;
};
struct sched_entity {
	u64 sum_exec_runtime;
};
struct task_struct {
	struct thread_info thread_info;
	struct sched_entity se;
	int pid, tgid;
	unsigned int flags;
	unsigned int __state;
	unsigned in_iowait : 1;
	struct signal_struct *signal;
	char comm[16];
};
// Before Linux 5.14.
struct task_struct___old {
	long state;
};
#pragma clang attribute pop

// ---- maps ----------------------------------------------------------------------------------------------------------

struct watch {
	u64 party;
	// Since when it is watched, nanoseconds of the monotonic clock.
	u64 since;
};

// By process. Children are added as they are born.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROCESSES);
	__type(key, u32);
	__type(value, struct watch);
} watched SEC(".maps");

struct call {
	u64 count;
	// Of these, errors; of those, EAGAIN.
	u64 errors;
	u64 again;
	// Sum of results above 0: bytes, events, descriptors.
	u64 returned;
};

// One value is a party's, so that one look reads all of it.
struct party_calls {
	struct call of[CALLS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, PARTIES);
	__type(key, u32);
	__type(value, struct party_calls);
} calls SEC(".maps");

// What a thread does. Which of the waits a system call means, user space says (`waits`).
enum { RUNNING, RUNNABLE, LOCK, NETWORK, DISK, SLEEP, OTHER, STATES };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CALLS);
	__type(key, u32);
	__type(value, u64);
} waits SEC(".maps");

struct sums {
	u64 ns[STATES];
	u64 wakeups;
	u64 migrations;
	// Exact, where `modes` is attached.
	u64 user_ns;
	u64 sys_ns;
	// Of ended threads: CPU time of their whole lives, as the scheduler counts it.
	u64 run_ns;
	u64 threads;
};

struct thread {
	// A reader that finds `done` and `begun` equal has read nothing half written: it reads upwards, we write `begun` first.
	u64 done;
	u64 party;
	u64 state;
	u64 since;
	// In the kernel or not, and since when.
	u64 in_kernel;
	u64 mode_since;
	struct sums sums;
	u64 begun;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, THREADS);
	__type(key, u32);
	__type(value, struct thread);
} threads SEC(".maps");

struct name {
	u64 party;
	char comm[16];
};

// What threads left that have ended, by party and name.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, NAMES);
	__type(key, struct name);
	__type(value, struct sums);
} ended SEC(".maps");

// Whether system calls are counted just now, as user space says; and how many threads found no room.
enum { COUNTING, LOST, FACTS };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, FACTS);
	__type(key, u32);
	__type(value, u64);
} facts SEC(".maps");

static __always_inline u64 *fact(u32 which)
{
	return bpf_map_lookup_elem(&facts, &which);
}

// ---- system calls --------------------------------------------------------------------------------------------------

static __always_inline void count(u32 party, u32 number, s64 result)
{
	struct party_calls *all = bpf_map_lookup_elem(&calls, &party);
	if (!all || number >= CALLS)
		return;
	struct call *call = &all->of[number];
	call->count++;
	if (result < 0) {
		call->errors++;
		if (result == -EAGAIN)
			call->again++;
	} else {
		call->returned += result;
	}
}

// The exit alone tells everything: the registers still hold the number and the arguments.
SEC("tp_btf/sys_exit")
int BPF_PROG(inside_calls, struct pt_regs *regs, long result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 tgid = task->tgid;
	struct watch *watch = bpf_map_lookup_elem(&watched, &tgid);
	if (!watch)
		return 0;
	u32 party = watch->party;
	u64 *counting = fact(COUNTING);
	if (!counting || !*counting)
		return 0;
	// Calls of 32-bit programs have other numbers.
	u64 number = task->thread_info.status & TS_COMPAT ? UNKNOWN : regs->orig_ax;
	if (number == NR_FUTEX)
		count(party, FUTEX + ((regs->si & FUTEX_COMMAND) < 11 ? (regs->si & FUTEX_COMMAND) : 10), result);
	else if (number < FUTEX) {
		// A child leaves through its parent's call, which it never made.
		if (result == 0 && (number == NR_CLONE || number == NR_CLONE3 || number == NR_FORK || number == NR_VFORK))
			return 0;
		// A peek leaves the bytes in the socket, so a later call returns them again.
		bool is_peek = (number == NR_RECVFROM && regs->r10 & MSG_PEEK) || (number == NR_RECVMSG && regs->dx & MSG_PEEK);
		count(party, number, is_peek && result > 0 ? 0 : result);
	} else {
		// What returns from a signal has the registers of the interrupted place.
		count(party, number == (u64)-1 ? NR_RT_SIGRETURN : UNKNOWN, number == (u64)-1 ? 0 : result);
	}
	return 0;
}

// ---- threads -------------------------------------------------------------------------------------------------------

static __always_inline u64 state_of(struct task_struct *task)
{
	if (bpf_core_field_exists(task->__state))
		return task->__state;
	return ((struct task_struct___old *)task)->state;
}

// What a thread waits for that is off its CPU and not ready to run.
static __always_inline u64 wait_of(struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	bool is_known = regs->orig_ax < FUTEX && !(task->thread_info.status & TS_COMPAT);
	u32 number = is_known ? regs->orig_ax : UNKNOWN;
	u64 *known = bpf_map_lookup_elem(&waits, &number);
	u64 wait = known ? *known : OTHER;
	// File systems wait for their journal without in_iowait (jbd2_log_wait_commit, xlog_wait).
	if (wait != DISK && state_of(task) & TASK_UNINTERRUPTIBLE)
		return BPF_CORE_READ_BITFIELD(task, in_iowait) ? DISK : LOCK;
	return wait;
}

static __always_inline void begin(struct thread *thread)
{
	thread->begun++;
	barrier();
}

static __always_inline void end(struct thread *thread)
{
	barrier();
	thread->done = thread->begun;
}

// Adds the time since the last change to the state that lasted until now.
static __always_inline void pass(struct thread *thread, u64 now)
{
	u64 state = thread->state;
	if (state < STATES && now > thread->since)
		thread->sums.ns[state] += now - thread->since;
	thread->since = now;
}

static __always_inline void pass_mode(struct thread *thread, u64 now)
{
	if (now > thread->mode_since) {
		if (thread->in_kernel)
			thread->sums.sys_ns += now - thread->mode_since;
		else
			thread->sums.user_ns += now - thread->mode_since;
	}
	thread->mode_since = now;
}

// A thread that is watched; one that is seen for the first time has been in `state` since its process is watched.
static __always_inline struct thread *thread_of(struct task_struct *task, u64 state)
{
	u32 tid = task->pid, tgid = task->tgid;
	struct thread *known = bpf_map_lookup_elem(&threads, &tid);
	if (known)
		return known;
	struct watch *watch = bpf_map_lookup_elem(&watched, &tgid);
	// A thread that ends is known, if it moved since it is watched and there was room for it.
	if (!watch || task->flags & PF_EXITING)
		return 0;
	struct thread fresh = {};
	fresh.party = watch->party;
	fresh.state = state;
	fresh.since = watch->since;
	fresh.mode_since = watch->since;
	fresh.in_kernel = 1;
	if (bpf_map_update_elem(&threads, &tid, &fresh, BPF_NOEXIST)) {
		u64 *lost = fact(LOST);
		if (lost)
			__sync_fetch_and_add(lost, 1);
		return 0;
	}
	return bpf_map_lookup_elem(&threads, &tid);
}

// Adds what a thread did to the sums of ended threads of its name.
static __always_inline void close_account(struct task_struct *task, struct thread *thread)
{
	struct name key = { .party = thread->party };
	BPF_CORE_READ_STR_INTO(&key.comm, task, comm);
	struct sums *sums = bpf_map_lookup_elem(&ended, &key);
	if (!sums) {
		struct sums none = {};
		bpf_map_update_elem(&ended, &key, &none, BPF_NOEXIST);
		sums = bpf_map_lookup_elem(&ended, &key);
	}
	if (!sums) {
		u64 *lost = fact(LOST);
		if (lost)
			__sync_fetch_and_add(lost, 1);
		return;
	}
	for (int i = 0; i < STATES; i++)
		__sync_fetch_and_add(&sums->ns[i], thread->sums.ns[i]);
	__sync_fetch_and_add(&sums->wakeups, thread->sums.wakeups);
	__sync_fetch_and_add(&sums->migrations, thread->sums.migrations);
	__sync_fetch_and_add(&sums->user_ns, thread->sums.user_ns);
	__sync_fetch_and_add(&sums->sys_ns, thread->sums.sys_ns);
	__sync_fetch_and_add(&sums->run_ns, task->se.sum_exec_runtime);
	__sync_fetch_and_add(&sums->threads, 1);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(inside_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	u64 now = bpf_ktime_get_ns();
	if (prev->pid) {
		struct thread *thread = thread_of(prev, RUNNING);
		if (thread) {
			begin(thread);
			pass(thread, now);
			pass_mode(thread, now);
			thread->state = preempt || state_of(prev) == 0 ? RUNNABLE : wait_of(prev);
			end(thread);
			// Its last switch: freeing its memory and files, some 20 us, is part of its CPU time.
			if (state_of(prev) & TASK_DEAD) {
				u32 tid = prev->pid;
				close_account(prev, thread);
				bpf_map_delete_elem(&threads, &tid);
			}
		}
	}
	if (next->pid) {
		struct thread *thread = thread_of(next, RUNNABLE);
		if (thread) {
			begin(thread);
			pass(thread, now);
			thread->mode_since = now;
			thread->state = RUNNING;
			end(thread);
		}
	}
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(inside_wakeup, struct task_struct *task)
{
	u64 now = bpf_ktime_get_ns();
	struct thread *thread = thread_of(task, wait_of(task));
	if (!thread || thread->state <= RUNNABLE)
		return 0;
	begin(thread);
	pass(thread, now);
	thread->state = RUNNABLE;
	thread->sums.wakeups++;
	end(thread);
	return 0;
}

SEC("tp_btf/sched_migrate_task")
int BPF_PROG(inside_migrate, struct task_struct *task)
{
	u32 tid = task->pid;
	struct thread *thread = bpf_map_lookup_elem(&threads, &tid);
	if (thread)
		thread->sums.migrations++;
	return 0;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(inside_fork, struct task_struct *parent, struct task_struct *child)
{
	u32 from = parent->tgid, to = child->tgid;
	struct watch *watch = bpf_map_lookup_elem(&watched, &from);
	if (!watch)
		return 0;
	u64 now = bpf_ktime_get_ns();
	if (from != to) {
		struct watch fresh = { .party = watch->party, .since = now };
		bpf_map_update_elem(&watched, &to, &fresh, BPF_ANY);
	}
	struct thread *thread = thread_of(child, RUNNABLE);
	// It is not older than this.
	if (thread)
		thread->since = thread->mode_since = now;
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(inside_exit, struct task_struct *task)
{
	u32 tgid = task->tgid;
	// The exiting thread is not counted any more: no thread of the process is left.
	if (task->signal->live.counter == 0)
		bpf_map_delete_elem(&watched, &tgid);
	return 0;
}

// ---- exact user and system time --------------------------------------------------------------------------------------

static __always_inline int change_mode(u64 in_kernel)
{
	struct task_struct *task = bpf_get_current_task_btf();
	u32 tid = task->pid;
	struct thread *thread = bpf_map_lookup_elem(&threads, &tid);
	if (!thread)
		return 0;
	begin(thread);
	pass_mode(thread, bpf_ktime_get_ns());
	thread->in_kernel = in_kernel;
	end(thread);
	return 0;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(inside_enter, struct pt_regs *regs, long number)
{
	return change_mode(1);
}

SEC("tp_btf/sys_exit")
int BPF_PROG(inside_leave, struct pt_regs *regs, long result)
{
	return change_mode(0);
}
