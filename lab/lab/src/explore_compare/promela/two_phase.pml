/* Two-phase commit with N resource managers, 1 to 10, as Gray and Lamport specify it. Messages stay
 * in the network and may be received again and again. The states are those of
 * crates/explore/src/models/two_phase.rs. */

#define WORKING   0
#define PREPARED  1
#define COMMITTED 2
#define ABORTED   3

byte state[N]; /* of the resource managers */
bit known[N];  /* whether the transaction manager knows that one is prepared */
bit sent[N];   /* whether one has sent that it is */
byte decision = 0;

#define ALL1 known[0]
#if N > 1
#define ALL2 ALL1 && known[1]
#else
#define ALL2 ALL1
#endif
#if N > 2
#define ALL3 ALL2 && known[2]
#else
#define ALL3 ALL2
#endif
#if N > 3
#define ALL4 ALL3 && known[3]
#else
#define ALL4 ALL3
#endif
#if N > 4
#define ALL5 ALL4 && known[4]
#else
#define ALL5 ALL4
#endif
#if N > 5
#define ALL6 ALL5 && known[5]
#else
#define ALL6 ALL5
#endif
#if N > 6
#define ALL7 ALL6 && known[6]
#else
#define ALL7 ALL6
#endif
#if N > 7
#define ALL8 ALL7 && known[7]
#else
#define ALL8 ALL7
#endif
#if N > 8
#define ALL9 ALL8 && known[8]
#else
#define ALL9 ALL8
#endif
#if N > 9
#define ALL10 ALL9 && known[9]
#else
#define ALL10 ALL9
#endif

/* A resource manager, and what the transaction manager does about it. */
active [N] proctype resource_manager()
{
	do
	:: d_step { decision == 0 && sent[_pid] -> known[_pid] = 1 }
	:: d_step { state[_pid] == WORKING -> state[_pid] = PREPARED; sent[_pid] = 1 }
	:: d_step { state[_pid] == WORKING -> state[_pid] = ABORTED }
	:: d_step { decision != 0 -> state[_pid] = decision }
	od
}

active proctype transaction_manager()
{
	do
	:: d_step { decision == 0 && ALL10 -> decision = COMMITTED }
	:: d_step { decision == 0 -> decision = ABORTED }
	od
}
