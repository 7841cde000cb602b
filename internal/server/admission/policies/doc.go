// Package policies carries out the policies of a cluster that are written in CEL: the plugins MutatingAdmissionPolicy
// and ValidatingAdmissionPolicy.
//
// What is guaranteed: a policy, a binding and a parameter apply as they are once their write was acknowledged. A policy
// is compiled when a request first concerns it. Expressions see what Kubernetes shows them and cost what they cost
// there; one that costs too much ends as the policy's failure policy says. A policy that no request is about costs
// nothing.
package policies
