/* Reno by RFC 5681 as a program: cc -O2 -o control control.c, and then netrepro conform ./control */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number behind a key of a flat JSON object; `otherwise` for null and for a key that is not there. */
static double number(const char *line, const char *key, double otherwise)
{
	char quoted[40];
	snprintf(quoted, sizeof quoted, "\"%s\": ", key);
	const char *at = strstr(line, quoted);
	if (!at || !strncmp(at + strlen(quoted), "null", 4))
		return otherwise;
	return strtod(at + strlen(quoted), NULL);
}

static int is(const char *line, const char *event)
{
	char quoted[40];
	snprintf(quoted, sizeof quoted, "\"event\": \"%s\"", event);
	return strstr(line, quoted) != NULL;
}

static void answer(const char *what, double segments)
{
	printf("{\"do\": \"%s\", \"segments\": %.17g}\n", what, segments);
}

int main(void)
{
	char line[4096];
	double flight = 0; /* what was in flight when the last acknowledgement came */

	while (fgets(line, sizeof line, stdin)) {
		double window = number(line, "window", 0);

		if (is(line, "loss") || is(line, "mark")) {
			double half = (flight < window ? flight : window) / 2;

			answer("threshold", half > 2 ? half : 2);
		} else if (is(line, "grow")) {
			double left = number(line, "segments", 0);
			double threshold = number(line, "threshold", 1e18);

			flight = number(line, "next", 0) - number(line, "first", 0) + left;
			if (strstr(line, "\"window_limited\": true")) {
				if (window < threshold) { /* slow start */
					double grown = window + left < threshold ? window + left : threshold;

					left -= grown - window;
					window = grown;
				}
				if (left > 0) /* congestion avoidance */
					window += left / window;
				answer("window", window);
			}
		}
		puts("{\"do\": \"done\"}");
		fflush(stdout);
	}
	return 0;
}
