package core

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/resource"
)

var controllerRules = resource.Rules[*corev1.ReplicationController]{}
var controllerStatusRules = resource.Rules[*corev1.ReplicationController]{}
