/* What sending a packet by an interface takes, with whatever queueing discipline it has:
 *
 *     send INTERFACE SUBSCRIBERS
 *
 * Each packet is for another class at random, of four classes of so many subscribers, which Linux's htb tells by SO_PRIORITY
 * (tc-htb(8)): class 1:N of N from 1 on. It prints a line: cycles for a packet, the median of many short times, of which
 * few were interrupted.
 */
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>
#include <x86intrin.h>
#include "peer.h"

#define SLICE 512
#define SLICES 1024

int main(int count, char **words)
{
	static uint8_t frame[LENGTH];
	static double times[SLICES];
	need(count == 3, "send INTERFACE SUBSCRIBERS");
	uint32_t subscribers = (uint32_t)strtoul(words[2], NULL, 10);
	struct sockaddr_ll to = { .sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(words[1]), .sll_halen = 6 };
	need(subscribers > 0 && to.sll_ifindex > 0, words[1]);
	/* Of a protocol that nobody receives. */
	frame[12] = 0x88;
	frame[13] = 0xb5;
	int fd = socket(AF_PACKET, SOCK_RAW, 0);
	need(fd >= 0, "socket");
	for (int s = 0; s < SLICES; s++) {
		uint64_t begin = __rdtsc();
		for (int i = 0; i < SLICE; i++) {
			uint32_t class = 0x10000 + 1 + random_below(subscribers * CLASSES);
			need(setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &class, sizeof class) == 0, "SO_PRIORITY");
			need(sendto(fd, frame, sizeof frame, 0, (struct sockaddr *)&to, sizeof to) == LENGTH, "send");
		}
		times[s] = (double)(__rdtsc() - begin) / SLICE;
	}
	qsort(times, SLICES, sizeof *times, by_size);
	printf("%.1f\n", times[SLICES / 2]);
	return 0;
}
