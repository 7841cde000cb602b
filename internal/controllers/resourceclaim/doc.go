// Package resourceclaim makes the resource claims of pods that have templates of them, and frees those that nobody uses
// any more.
//
// What is guaranteed: each template that a pod names has one claim, which the pod owns and which stands in its status.
// The name of that claim follows from the pod's uid, so that a loop that crashes between its writes makes no second
// one. A pod that was given its node by somebody else than a scheduler is noted as a user of the claims that are
// allocated. A pod that has ended, that has gone, or that was deleted before it had a node is no user any more; when a
// claim has lost its last user its devices are free again, its finalizer goes, and the claim too if it was made for a
// pod that has ended.
//
// What may not be assumed: that claims which never had a user are freed before they are deleted, or that those with
// users other than pods are touched on behalf of these. A claim of extended resources is made by the scheduler; here it
// is only freed.
package resourceclaim
