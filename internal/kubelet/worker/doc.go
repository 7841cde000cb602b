// Package worker runs pods: it makes the sandbox and the containers that a pod's definition asks for, and reports the
// pod's status. It works the same with real and with fake containers.
//
// Guarantees:
//
//   - Level-driven: each step is decided from the pod's definition and from what the runtime has now. A missed
//     notification only costs time, and a kubelet that restarts finds and keeps the containers that run.
//   - One at a time: no two steps for the same pod run at once. A pod that replaces another of the same name starts
//     when no container of the earlier one runs any more.
//   - Graceful: a container gets the pod's grace period before it is killed, and the pod is deleted from the API only
//     after all its containers have ended.
//   - Final: a pod that has succeeded or failed never starts a container again.
//   - Independent: no step waits for the API server. Reporter writes the statuses; a newer status replaces one that
//     still waits.
package worker
