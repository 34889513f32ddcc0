// SPDX-License-Identifier: GPL-2.0
/*
 * Traffic from the side of the guest, for the control page of the model.
 *
 *   flood udp|tcp|send NUMBER MICROSECONDS
 *   flood sink
 *
 * "udp" starts the stream that the control page is set up for and takes what
 * arrives at a UDP port; "tcp" takes what the model's TCP peer sends; "send"
 * sends UDP as fast as it can. Mark NUMBER is set with the start of the stream,
 * or when the others have gone on for a moment; mark NUMBER + 1 after so many
 * microseconds. Beside it runs a heart, which beats every millisecond if it is
 * let. At the end one line tells of
 *
 *   bytes and packets that the program received or sent between the marks,
 *   packets until the stream had ended and all was read,
 *   beats between the marks, and the longest time between two in nanoseconds.
 *
 * "sink" only takes what arrives, until it is killed.
 *
 * There is no C library for the guest's architecture where this is built, and
 * it needs none: it makes system calls by itself, on arm64.
 */
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;

enum {
	SYS_OPENAT = 56,
	SYS_WRITE = 64,
	SYS_EXIT = 93,
	SYS_NANOSLEEP = 101,
	SYS_KILL = 129,
	SYS_SOCKET = 198,
	SYS_BIND = 200,
	SYS_CONNECT = 203,
	SYS_SENDTO = 206,
	SYS_RECVFROM = 207,
	SYS_CLONE = 220,
	SYS_MMAP = 222,
	SYS_WAIT4 = 260,
};

/* The control page (tests/model/src/control.rs). */
#define CONTROL		0x0b000000
#define CONTROL_START	0x20
#define CONTROL_MARK	0x24

/* Ports of the stream, and where the peer sends from. */
#define SINK		5001
#define SOURCE		5002

#define AF_INET		2
#define SOCK_STREAM	1
#define SOCK_DGRAM	2
#define SIGCHLD		17
#define SIGKILL		9

#define US		1000ul
#define MS		1000000ul
#define SECOND		1000000000ul

/* What a datagram carries at most. */
#define DATAGRAM	1472

struct address {
	u16 family;
	u16 port;
	u8 ip[4];
	u8 zero[8];
};

/* Shared by all processes. */
struct counts {
	u64 bytes;
	u64 packets;
	u64 beats;
	u64 last_beat;
	u64 longest;
};

static struct counts *counts;
static u8 *control;
static u8 buffer[128 << 10];

static long call(long number, long a, long b, long c, long d, long e, long f)
{
	register long x8 asm("x8") = number;
	register long x0 asm("x0") = a;
	register long x1 asm("x1") = b;
	register long x2 asm("x2") = c;
	register long x3 asm("x3") = d;
	register long x4 asm("x4") = e;
	register long x5 asm("x5") = f;

	asm volatile("svc #0"
		     : "+r"(x0)
		     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
		     : "memory");
	return x0;
}

static void say(const char *text)
{
	u64 length = 0;

	while (text[length])
		length++;
	call(SYS_WRITE, 1, (long)text, length, 0, 0, 0);
}

static void say_number(u64 value)
{
	char text[24];
	char *start = text + sizeof(text);

	*--start = 0;
	do {
		*--start = '0' + value % 10;
		value /= 10;
	} while (value);
	say(start);
}

static void leave(int status)
{
	for (;;)
		call(SYS_EXIT, status, 0, 0, 0, 0, 0);
}

static long need(long result, const char *what)
{
	if (result >= 0)
		return result;
	say("flood: cannot ");
	say(what);
	say(": ");
	say_number(-result);
	say("\n");
	leave(1);
	return 0;
}

static u64 load(const u64 *from)
{
	return __atomic_load_n(from, __ATOMIC_RELAXED);
}

static void store(u64 *to, u64 value)
{
	__atomic_store_n(to, value, __ATOMIC_RELAXED);
}

/* Time in nanoseconds. */
static u64 now(void)
{
	u64 ticks, rate;

	asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	asm("mrs %0, cntfrq_el0" : "=r"(rate));
	return ticks / rate * SECOND + ticks % rate * SECOND / rate;
}

static void pause_for(u64 ns)
{
	u64 time[2] = { ns / SECOND, ns % SECOND };

	call(SYS_NANOSLEEP, (long)time, 0, 0, 0, 0, 0);
}

static void control_write(u32 offset, u32 value)
{
	asm volatile("str %w0, [%1]" : : "r"(value), "r"(control + offset)
		     : "memory");
}

static u32 control_read(u32 offset)
{
	u32 value;

	asm volatile("ldr %w0, [%1]" : "=r"(value) : "r"(control + offset));
	return value;
}

static void *map(long length, long flags, long file, long offset)
{
	/* PROT_READ | PROT_WRITE */
	return (void *)need(call(SYS_MMAP, 0, length, 3, flags, file, offset),
			    "get memory");
}

static u64 number(const char *text)
{
	u64 value = 0;

	while (*text >= '0' && *text <= '9')
		value = value * 10 + *text++ - '0';
	return value;
}

static int same(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

static u16 be16(u16 value)
{
	return value << 8 | value >> 8;
}

static long open_socket(int type, long what, u8 last, u16 port)
{
	struct address address = {
		.family = AF_INET,
		.port = be16(port),
		.ip = { 10, 0, 2, last },
	};
	long sock = need(call(SYS_SOCKET, AF_INET, type, 0, 0, 0, 0),
			 "make a socket");

	need(call(what, sock, (long)&address, sizeof(address), 0, 0, 0),
	     "bind or connect");
	return sock;
}

static void beat(void)
{
	store(&counts->last_beat, now());
	for (;;) {
		u64 time, gap;

		pause_for(MS);
		time = now();
		gap = time - load(&counts->last_beat);
		if (gap > load(&counts->longest))
			store(&counts->longest, gap);
		store(&counts->last_beat, time);
		store(&counts->beats, load(&counts->beats) + 1);
	}
}

static void carry(long sock, int send)
{
	for (;;) {
		long n = call(send ? SYS_SENDTO : SYS_RECVFROM, sock,
			      (long)buffer, send ? DATAGRAM : sizeof(buffer),
			      0, 0, 0);

		if (n == 0)
			leave(0);
		need(n, "go on");
		store(&counts->bytes, load(&counts->bytes) + n);
		store(&counts->packets, load(&counts->packets) + 1);
	}
}

/* Returns 0 in the child. */
static long spawn(void)
{
	return need(call(SYS_CLONE, SIGCHLD, 0, 0, 0, 0, 0), "fork");
}

static void end(long child)
{
	call(SYS_KILL, child, SIGKILL, 0, 0, 0, 0);
	call(SYS_WAIT4, child, 0, 0, 0, 0, 0);
}

static void say_result(const char *what, u64 value)
{
	say(" ");
	say(what);
	say(" ");
	say_number(value);
}

static void flood(const char *way, u64 mark, u64 time)
{
	int send = same(way, "send");
	int stream = same(way, "udp");
	struct counts before, after;
	long worker, heart, sock, file;
	u64 gap;

	file = need(call(SYS_OPENAT, -100, (long)"/dev/mem", 2, 0, 0, 0),
		    "open /dev/mem");
	control = map(4096, 1 /* MAP_SHARED */, file, CONTROL);
	if (stream)
		sock = open_socket(SOCK_DGRAM, SYS_BIND, 15, SINK);
	else if (send)
		sock = open_socket(SOCK_DGRAM, SYS_CONNECT, 2, SINK);
	else
		sock = open_socket(SOCK_STREAM, SYS_CONNECT, 2, SOURCE);
	heart = spawn();
	if (!heart)
		beat();
	worker = spawn();
	if (!worker)
		carry(sock, send);
	pause_for(20 * MS);

	/*
	 * Before the stream: once it runs, there may be no time left for this
	 * program, and the second mark comes late.
	 */
	store(&counts->longest, 0);
	control_write(CONTROL_MARK, mark);
	before = *counts;
	if (stream)
		control_write(CONTROL_START, 0);
	pause_for(time);
	control_write(CONTROL_MARK, mark + 1);
	after = *counts;
	/* The present time without a beat counts too. */
	gap = now() - after.last_beat;
	if (gap < after.longest)
		gap = after.longest;

	while (stream && control_read(CONTROL_START))
		pause_for(10 * MS);
	pause_for(100 * MS);
	say("flood");
	say_result("mark", mark);
	say_result("bytes", after.bytes - before.bytes);
	say_result("packets", after.packets - before.packets);
	say_result("total", load(&counts->packets));
	say_result("beats", after.beats - before.beats);
	say_result("longest", gap);
	say("\n");
	end(worker);
	end(heart);
}

/* Not static, as nothing but the code below calls it. */
void begin(u64 *stack)
{
	u64 argc = stack[0];
	const char **argv = (const char **)(stack + 1);

	counts = map(4096, 0x21 /* MAP_SHARED | MAP_ANONYMOUS */, -1, 0);
	if (argc == 2 && same(argv[1], "sink"))
		carry(open_socket(SOCK_DGRAM, SYS_BIND, 15, SINK), 0);
	if (argc == 4) {
		flood(argv[1], number(argv[2]), number(argv[3]) * US);
		leave(0);
	}
	say("flood: udp|tcp|send NUMBER MICROSECONDS, or sink\n");
	leave(2);
}

asm(".globl _start\n"
	"_start:\n"
	"mov	x0, sp\n"
	"and	sp, x0, #~15\n"
	"b	begin\n");
