// Package persistentvolume binds claims and volumes to each other, and reclaims volumes whose claims have gone.
//
// What is guaranteed: a volume is bound to one claim at most, and a claim to one volume; the volume is written first, with the
// version that was read, so that of two claims that choose the same volume one tries again. The smallest volume that satisfies
// a claim is taken; one that names the claim goes before all others. A claim whose class waits for its first consumer is
// left until the scheduler names a node, or until a volume names the claim. A volume is called released, and a claim lost, only after
// the API has been asked and not on the word of a cache. What is bound by this loop, and what by a user, is told apart by
// Kubernetes' annotations, and undone accordingly.
//
// What may not be assumed: that data is deleted here. With the policy Delete, that is the work of the provisioner that made the
// volume; a volume that no provisioner made fails. The policy Recycle is done by a pod that empties the volume's folder.
package persistentvolume
