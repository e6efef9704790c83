// Threads of OpenMP that wait for work.
#ifndef HEED_CLI_IDLE_THREADS_H_
#define HEED_CLI_IDLE_THREADS_H_

namespace heed::cli {

// Makes idle threads sleep soon, where the command is one that trains for long. By default they spin for a millisecond and
// more, and where another process wants a core too, they keep it from the thread that they wait for. libgomp reads how long
// they may spin when it is loaded, so this starts the program again in the same process, with GOMP_SPINCOUNT set. It does
// nothing where the user has set OMP_WAIT_POLICY or GOMP_SPINCOUNT, and where the program cannot be started again. `arguments`:
// those of main.
void LetIdleThreadsSleep(int count, char** arguments);

}  // namespace heed::cli

#endif  // HEED_CLI_IDLE_THREADS_H_
