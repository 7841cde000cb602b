package apps

import (
	appsv1 "k8s.io/api/apps/v1"

	"github.com/millrace/millrace/resource"
)

var deploymentRules, deploymentStatusRules resource.Rules[*appsv1.Deployment]
var replicaSetRules, replicaSetStatusRules resource.Rules[*appsv1.ReplicaSet]
var statefulSetRules, statefulSetStatusRules resource.Rules[*appsv1.StatefulSet]
var daemonSetRules, daemonSetStatusRules resource.Rules[*appsv1.DaemonSet]
var revisionRules resource.Rules[*appsv1.ControllerRevision]
