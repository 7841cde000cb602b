// Package persistentvolume binds claims and volumes to each other, and reclaims released volumes.
//
// Guarantees: a volume is bound to at most one claim, and a claim to one volume. The volume is written first, with the
// version that was read, so if two claims choose the same volume, one of them retries. A claim gets the smallest volume
// that satisfies it; a volume that names the claim has precedence. A claim whose class waits for the first consumer is
// left until the scheduler selects a node, or until a volume names the claim. A volume is marked as released, and a
// claim as lost, only after the API was read, not because of a cache. Kubernetes' annotations record what was bound by
// this loop and what by a user, and it is undone accordingly.
//
// Data is not deleted here. With the policy Delete that is done by the provisioner that made the volume; a volume
// without a provisioner fails. For the policy Recycle a pod empties the volume's directory.
package persistentvolume
