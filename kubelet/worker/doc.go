// Package worker brings pods to life and keeps them there: from a pod as it is wanted to its sandbox, its containers
// and the status that tells of them. It is the same for real and for pretended containers.
//
// What is guaranteed:
//
//   - Level: each step is decided from the pod as it is wanted now and from what the runtime has now. A missed
//     notification costs time at most, and a kubelet that starts anew finds and keeps what runs.
//   - One at a time: no two steps for the same pod happen at once. A pod that replaces another of the same name begins
//     when nothing of the earlier one runs any more.
//   - Graceful: a container is given the pod's grace before it is killed, and the pod is deleted from the API only
//     after all its containers have ended.
//   - Final: a pod that has succeeded or failed never starts a container again.
//   - Independent: no step waits for the API server. Statuses wait for it elsewhere, the newest replaces what waits.
package worker
