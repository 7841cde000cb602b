// Package linear tests that the API is linearizable: whatever clients see could have been seen if their requests had
// been carried out one after the other, each at some moment between its beginning and its end. It has only tests.
//
// Two servers share an etcd. Clients create, read, list, change and delete objects of few names through both of them,
// with finalizers, so that an object is often being deleted, gone, and there again. Meanwhile logs are held back, writes
// take long, answers are lost and servers are killed. Every history is checked against a model of one object, and one of
// a namespace with its objects, by github.com/anishathalye/porcupine. A request whose answer was lost may have taken
// effect at any later time, or never. Reads that may be old (resource version 0) are not part of it.
//
// The seed is logged, and set by MILLRACE_SEED. It repeats what clients and faults do, but not how their requests
// interleave: a history that was found is found again by a few runs. A long run:
//
//	go test ./proof/linear -duration 10m -timeout 20m
//
// # What it has found
//
// With seed 7581657047367422978, in one of two runs: a create was refused because of the end of a namespace that
// had been replaced by another one of the same name. The server's cache still showed the earlier one.
//
// That the checker finds what it is for can be tried by hand, by taking out what it protects. Each of these was found by
// the seeds 1, 2 and 3, in one run each:
//
//   - In internal/server/registry/delete.go let Delete return whenever deleteOnce has succeeded: "failed == nil" in place
//     of "failed == nil && (fresh || out.Entry.Revision != current.Revision)". A delete is then acknowledged that has
//     deleted nothing, and TestObjectsAreLinearizable fails.
//   - In internal/server/registry/change.go let conditions return nil. Objects then survive their namespace, and
//     TestNothingOutlivesItsNamespace fails.
package linear
