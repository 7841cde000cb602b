// Package deployment moves the replica sets of a deployment towards what the
// deployment declares: one replica set for each template it ever had, of which the
// newest grows while the others shrink, at the pace that the strategy allows.
//
// What is guaranteed, from whatever state and wherever an earlier pass was cut off:
//
//   - Bounded: with a rolling update the sizes asked for never exceed replicas plus
//     maxSurge, and nothing that is available is taken away below replicas minus maxUnavailable.
//   - Recreated: with the Recreate strategy no pod of a new template is asked for
//     while one of an old template may run.
//   - Single: one template has one replica set; two passes never make two.
//   - Remembered: replica sets of old templates are kept, up to revisionHistoryLimit,
//     numbered by the order in which they were last the newest.
//   - Proportional: when a deployment is scaled in the middle of a rollout, or while
//     it is paused, its replica sets grow and shrink alike.
//
// What may not be assumed: that a pass finishes a rollout. It does what can be done
// now, and every change of a replica set brings the next pass.
package deployment

import (
	appsv1 "k8s.io/api/apps/v1"
)

var (
	kind    = appsv1.SchemeGroupVersion.WithKind("Deployment")
	setKind = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
)

const hashLabel = appsv1.DefaultDeploymentUniqueLabelKey
