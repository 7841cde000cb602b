package cluster

import corev1 "k8s.io/api/core/v1"

// zone is a failure zone in a region. Regions may use the same names for their zones.
type zone struct{ region, name string }

// zone returns the number of the zone in a node's labels; 0 without such labels.
func (s *State) zone(labels map[string]string) int {
	z := zone{labels[corev1.LabelTopologyRegion], labels[corev1.LabelTopologyZone]}
	if z.name == "" {
		return 0
	}
	number, ok := s.zones[z]
	if !ok {
		if s.zones == nil {
			s.zones = make(map[zone]int)
		}
		number = len(s.zones) + 1
		s.zones[z] = number
	}
	return number
}
