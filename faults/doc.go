// Package faults makes a client's connection to an API server misbehave by plan, to find what a controller takes for
// granted. It is a round tripper, and works with any client and any server:
//
//	plan := faults.Plan{Seed: 7, Rules: []faults.Rule{
//		{Verb: "update", Chance: 0.2, Fault: faults.Conflict},
//		{Verb: "create", Chance: 0.1, Fault: faults.LostAnswer},
//		{Verb: "watch", Resource: "pods", Chance: 0.5, Fault: faults.Cut},
//	}}
//	transport := faults.New(plan)
//	config.Wrap(transport.Wrap)
//
// [Search] looks for a plan that breaks a test, makes it as short as it can, and says what the program takes for granted.
// [Transport.Run] starts a program anew that crashes by plan. `millrace faults` is the same in front of an API server, for programs in
// other languages.
//
// Guarantees:
//
//   - Repeatable: what happens to a request depends on the seed, on what the request is about and on how many such requests
//     there were before it; not on the order in which unrelated requests come.
//   - Told: [Transport.Happened] is the plan of exactly those faults that struck. Its String is one line, and
//     [Parse] reads it.
//   - Small: [Shrink] finds a plan with as few faults as possible that still makes a test fail.
package faults
