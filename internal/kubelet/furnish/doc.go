// Package furnish gives pods their volumes, environment, host names and termination messages.
//
// Guarantees: the files of config map, secret, projected and token volumes are replaced atomically, so that a reader
// sees the old set or the new one. If a required object is missing, the pod does not start; a running pod keeps what it
// has. A config map or secret is watched only while a pod of the node uses it. Secrets, tokens and keys are in memory,
// never on a disk. A token is renewed after 80 % of its lifetime, and a pod's certificate when its signer says so. After
// Release nothing of the pod is left on disk.
package furnish
