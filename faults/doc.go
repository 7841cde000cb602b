// Package faults makes a client's connection to an API server fail by plan, to find wrong assumptions of a controller.
// It is a round tripper, and works with any client and any server:
//
//	plan := faults.Plan{Seed: 7, Rules: []faults.Rule{
//		{Verb: "update", Chance: 0.2, Fault: faults.Conflict},
//		{Verb: "create", Chance: 0.1, Fault: faults.LostAnswer},
//		{Verb: "watch", Resource: "pods", Chance: 0.5, Fault: faults.Cut},
//	}}
//	transport := faults.New(plan)
//	config.Wrap(transport.Wrap)
//
// [Search] looks for a plan that breaks a test, makes it as short as it can, and names the wrong assumptions.
// [Transport.Run] restarts a program that crashes by plan. `millrace faults` does the same in front of an API server,
// for programs in other languages.
//
// Guarantees:
//
//   - Repeatable: what happens to a request depends on the seed, on the object of the request and on how many such
//     requests there were before it; not on the order of unrelated requests.
//   - Recorded: [Transport.Happened] is the plan of exactly those faults that occurred. Its String is one line, and
//     [Parse] reads it.
//   - Small: [Shrink] finds a plan with as few faults as possible that still makes a test fail.
package faults
