// Package webhooks asks the admission webhooks of a cluster about changes: the plugins MutatingAdmissionWebhook and
// ValidatingAdmissionWebhook.
//
// What is guaranteed: a configuration applies to every request that begins after its write was acknowledged. Mutating
// webhooks are called one after the other, by the names of their configurations; validating ones at the same time, on
// the object as it will be stored. A webhook that fails is ignored or refuses the request, as its configuration says,
// and has no part in the object. Static configurations are asked first. Nobody is asked about reviews of permissions,
// and only static ones are asked about webhooks and policies, so that nobody can lock a cluster out through its API.
// What no webhook is about costs a lookup.
package webhooks
