// Package queue is the work queue of a control loop: a set of keys that need
// attention, handed out to workers.
//
// What it guarantees, for any number of callers and workers:
//
//   - Unique: a key that waits is in the queue once, however often it is added.
//   - Exclusive: a key is in the hands of at most one worker at a time.
//   - Reliable: a key added while a worker has it is handed out once more
//     after that worker is done, so no change goes unseen.
//   - Earliest: of several delays asked for one key the earliest counts. A delay
//     never postpones a key that is ready, and adding a key never cancels its delay.
//   - Fair: keys of one priority come out in the order they went in. A higher
//     priority overtakes, but only what has not waited too long: one point of
//     priority is worth [Options].Aging of waiting, so nothing starves.
//   - Contained: a function run by [Queue.Run] that panics is an error of that
//     key, and is tried again like any other error.
//   - Quiet: the queue runs no goroutine of its own; when Run has returned and
//     the queue is shut down, nothing is left but memory.
//
// What a caller may not assume: that two additions cause two calls (they
// coalesce), that a delay is exact (it is a lower bound), or that keys are kept
// anywhere but in this process.
package queue
