package attachdetach

// Force is why a volume is detached that its node may still use.
type Force string

// The reasons.
const (
	NotForced    Force = ""
	TimedOut     Force = "timeout"        // the node was not ready for too long
	OutOfService Force = "out-of-service" // somebody says that the node is off
)

// Census has the numbers of volumes that are attached. One that is attached to several nodes counts for each.
type Census struct {
	// InUse are the volumes that pods use.
	InUse map[Use]int
	// Wanted are those that should be attached, and Attached those that are, by plugin.
	Wanted, Attached map[string]int
}

// Use is the use of a plugin's volumes on a node.
type Use struct{ Node, Plugin string }

// plugin returns Kubernetes' name for the plugin of a CSI driver's volumes.
func plugin(driver string) string { return "kubernetes.io/csi:" + driver }

func (r *controller) census() Census {
	c := Census{InUse: map[Use]int{}, Wanted: map[string]int{}, Attached: map[string]int{}}
	for v := range r.volumes.List() {
		if !r.attachable(v) {
			continue
		}
		name := plugin(v.Spec.CSI.Driver)
		for node := range r.users(v) {
			c.InUse[Use{node, name}]++
			c.Wanted[name]++
		}
	}
	for a := range r.attachments.List() {
		if a.Status.Attached {
			c.Attached[plugin(a.Spec.Attacher)]++
		}
	}
	return c
}
