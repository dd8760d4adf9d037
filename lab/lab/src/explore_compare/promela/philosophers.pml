/* Dining philosophers: each takes its left fork, then its right one, eats, and puts both back at
 * once. The states are those of crates/explore/src/models/philosophers.rs. N philosophers. */

bit taken[N];  /* fork i lies at the left of philosopher i */

#define RIGHT ((_pid + 1) % N)

active [N] proctype philosopher()
{
	do
	:: d_step { !taken[_pid] -> taken[_pid] = 1 };
	   d_step { !taken[RIGHT] -> taken[RIGHT] = 1 };
	   d_step { taken[_pid] = 0; taken[RIGHT] = 0 }
	od
}
