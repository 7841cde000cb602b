// Package loop is a controller framework. A control loop is a function from a key to a result; this package does
// everything around that function.
//
// A [Loop] has Watches, which select the keys to sync, and a Sync function for one key. [Clients] is what all loops of
// a process share: API clients, one informer for each kind, and the writer of events. An [Entry] describes a loop so
// that a [Group] can run it by name. [Run] runs everything.
//
// Guarantees:
//
//   - Level: Sync is called for a key some time after the last change that
//     concerns it, and must look at the full state. Changes are combined.
//   - Exclusive: a Loop never syncs one key twice at the same time.
//   - Primed: no Sync runs before every cache that the loop watches or reads is
//     filled, and the loop has received everything in them.
//   - Contained: a panic in Sync is an error of that key.
//   - Quiet: every Run ends when its context does, and returns only when
//     nothing that it started is running.
//   - Sole: what runs under [Elected] has stopped before its lease is given up
//     or expires.
//
// A Sync may be called with nothing to do, may be called for keys whose object does not exist (any more), and reads
// caches that may be behind the server. A loop that writes with a [Writer] is not called again for the key before its
// caches show the write. A loop that writes in another way notes its writes with [Wrote] and [Removed].
//
// The package also has what controllers often need: selections of what is cached ([Selection]), filters for changes
// ([Predicate]), clients for any kind ([ResourceFor]), server-side apply and create-or-update ([Writer]), finalizers
// ([Finalizer]), adoption ([Claims]), leader election ([Elected]), health and metrics ([Endpoints]).
package loop
