// Package linear tests that the API is linearizable: whatever clients see could have been seen if their requests had
// been carried out one after the other, each at some moment between its beginning and its end. It has only tests.
//
// Several servers share an etcd. Clients create, read, list, change and delete objects of few names through all of
// them, with finalizers, so that an object is often being deleted, gone, and there again. Meanwhile logs are held back,
// writes take long, answers are lost and servers are killed. Every history is checked against a model of one object,
// and one of a namespace with its objects, by github.com/anishathalye/porcupine. A request whose answer was lost may
// have taken effect at any later time, or never.
//
// The seed is logged, and set by MILLRACE_SEED. A long run:
//
//	go test ./proof/linear -duration 10m -timeout 20m
//
// That the checker finds what it is for can be tried by hand, by taking out what it protects. Each of these fails
// within a few seconds:
//
//   - In internal/server/registry/delete.go let Delete return whenever deleteOnce has succeeded: "failed == nil" in
//     place of "failed == nil && (fresh || out.Entry.Revision != current.Revision)". A delete is then acknowledged that
//     has deleted nothing.
//   - In internal/server/registry/create.go leave "c.conditions()..." out of the call of Store.Create. Objects then
//     survive their namespace.
package linear
