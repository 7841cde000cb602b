package node

import (
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func defaultClass(c *nodev1.RuntimeClass)                                    {}
func checkOverhead(o *nodev1.Overhead, path *field.Path) field.ErrorList     { return nil }
func checkScheduling(o *nodev1.Scheduling, path *field.Path) field.ErrorList { return nil }
