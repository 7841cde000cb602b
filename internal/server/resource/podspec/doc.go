// Package podspec has the defaults and the validation of pod specs, for all kinds that have one: pods, and the
// templates of replication controllers, deployments, stateful sets, daemon sets, jobs and pod templates.
//
//   - Default and DefaultTemplate set defaults. Both are idempotent, and cost nothing for values that are set.
//   - Validate and ValidateTemplate return every error, in the order and the words of Kubernetes. A valid pod is
//     validated without allocating paths: they are built when an error is found.
//   - Nothing here reads other objects, so the result depends on the spec only.
package podspec
