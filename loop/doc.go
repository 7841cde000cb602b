// Package loop is the controller kit: a control loop is a function from a key
// to a result, and this package is everything around that function.
//
// A [Loop] names what wakes it (its Watches) and what it does about one key
// (Sync). [Clients] are what all loops of a process share: API clients, one
// informer for each kind, the writer of events. An [Entry] describes a loop so that a
// [Group] can run it by name, and [Run] runs it all.
//
// What is guaranteed:
//
//   - Level: Sync is called for a key some time after the last change that
//     concerns it, and is expected to look at the full state. Changes coalesce.
//   - Exclusive: one key is never synced twice at a time by one Loop.
//   - Primed: no Sync runs before every cache that the loop watches or reads has
//     been filled, and the loop has been told of everything in them.
//   - Contained: a panic in Sync is an error of that key.
//   - Quiet: every Run ends when its context does, and returns only when
//     nothing that it started is running.
//   - Sole: what runs under [Elected] has stopped before its lease is given up
//     or runs out.
//
// A Sync may be called with nothing to do, may be called for keys whose object
// does not exist (any more), and sees caches that lag behind the server. A loop
// that writes by a [Writer] is not called again for the key before its caches
// show what it wrote; one that writes in another way notes that in [Writes].
//
// The package also has what controllers need again and again: selections of
// what is cached ([Selection]), changes that do not wake a loop ([Predicate]),
// clients for any kind ([ResourceFor]), server-side apply and create-or-update
// ([Writer]), finalizers ([Finalizer]), adoption ([Claims]), leader election
// ([Elected]), health and metrics ([Endpoints]).
package loop
