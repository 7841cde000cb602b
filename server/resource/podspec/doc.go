// Package podspec has the defaults and checks of pods' specs, for all kinds that have one: pods themselves and the
// templates of replication controllers, deployments, stateful and daemon sets, jobs and pod templates.
//
//   - Default and DefaultTemplate fill in what was left out; both are idempotent, and cost nothing for what is there.
//   - Validate and ValidateTemplate return every error, in the order and the words of Kubernetes. A valid pod is checked
//     without allocating paths: they are built when an error is found.
//   - Nothing here looks at other objects, so nothing here can fail for any reason but the spec itself.
package podspec
