package flags

import "fmt"

// RealNodes returns an error if a system, which runtime.GOOS names, cannot make its machine a node.
func RealNodes(system string) error {
	if system == "linux" {
		return nil
	}
	return fmt.Errorf("a real node needs Linux, whose kernel has the containers, cgroups and network rules; on %s run hollow nodes", system)
}

// Missing says in a sentence what a system other than Linux has not; nothing of Linux.
func Missing(system string) string {
	if system == "linux" {
		return ""
	}
	return fmt.Sprintf("On %s there are no real containers, no pod network and no addresses of services, which need Linux; all else is there.", system)
}
