// Package deployment reconciles Deployments: it keeps one ReplicaSet for each template that a Deployment has had. The
// newest one grows while the others shrink, as the strategy allows.
//
// Guarantees, from any state and wherever an earlier sync has stopped:
//
//   - Bounded: during a rolling update the requested sizes never exceed replicas plus
//     maxSurge, and available pods are never reduced below replicas minus maxUnavailable.
//   - Recreated: with the Recreate strategy no pod of a new template is requested
//     while one of an old template may run.
//   - Single: one template has one ReplicaSet; two syncs never make two.
//   - Remembered: ReplicaSets of old templates are kept, up to revisionHistoryLimit,
//     numbered by the order in which they were last the newest.
//   - Proportional: when a Deployment is scaled during a rollout, or while it is
//     paused, its ReplicaSets grow and shrink in proportion.
//
// One sync does not finish a rollout. It does what can be done now, and every change of a ReplicaSet causes the next
// sync.
package deployment

import (
	appsv1 "k8s.io/api/apps/v1"
)

var (
	kind    = appsv1.SchemeGroupVersion.WithKind("Deployment")
	setKind = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
)

const hashLabel = appsv1.DefaultDeploymentUniqueLabelKey
