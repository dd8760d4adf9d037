/* Peterson's algorithm for N processes, 2 to 7: N - 1 levels to the critical section. The states
 * are those of crates/explore/src/models/filter.rs. */

byte level[N];     /* where each process is, 0 if nowhere */
byte last[N];      /* who came last to each level from 1; the first is not used */
byte critical = 0; /* how many are in their critical sections */

#define BELOW(other) (_pid == other || level[other] < level[_pid])
#if N == 2
#define FIRST (BELOW(0) && BELOW(1))
#elif N == 3
#define FIRST (BELOW(0) && BELOW(1) && BELOW(2))
#elif N == 4
#define FIRST (BELOW(0) && BELOW(1) && BELOW(2) && BELOW(3))
#elif N == 5
#define FIRST (BELOW(0) && BELOW(1) && BELOW(2) && BELOW(3) && BELOW(4))
#elif N == 6
#define FIRST (BELOW(0) && BELOW(1) && BELOW(2) && BELOW(3) && BELOW(4) && BELOW(5))
#else
#define FIRST (BELOW(0) && BELOW(1) && BELOW(2) && BELOW(3) && BELOW(4) && BELOW(5) && BELOW(6))
#endif
#define PASSES (FIRST || last[level[_pid]] != _pid)

active [N] proctype process()
{
idle:
	level[_pid] = 1;
arrived:
	last[level[_pid]] = _pid;
	/* waiting */
	if
	:: d_step { PASSES && level[_pid] + 1 < N -> level[_pid]++ };
	   goto arrived
	:: d_step {
		PASSES && level[_pid] + 1 == N ->
		critical++;
		assert(critical == 1)
	   }
	fi;
	/* critical */
	d_step { critical--; level[_pid] = 0 };
	goto idle
}
