package core

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/millrace/millrace/resource"
)

var nodeRules = resource.Rules[*corev1.Node]{}
var nodeStatusRules = resource.Rules[*corev1.Node]{}
