// Package cause says why a program acts, so that the server can keep it beside each change.
//
// A [Cause] is the changes that woke a loop for a key, merged and bounded, and whether a timer or a retry woke it. The
// work queue of this module collects it, puts it into the context of the work, and [Transport] sends it along with each
// request that writes. A server of Millrace that keeps its past stores it with the change, and not in the object, so
// objects are what they are everywhere. Other servers ignore the header.
//
// Programs that are built on package loop do this by themselves. Others wrap the transport of their clients, and put the
// cause into the contexts of their requests:
//
//	config.Wrap(cause.Transport)
//	ctx = cause.With(ctx, cause.Cause{Loop: "website", Key: key, Changes: changes, Count: len(changes)})
package cause
