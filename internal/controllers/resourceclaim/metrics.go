package resourceclaim

import resourcev1 "k8s.io/api/resource/v1"

// Sort is what claims are counted by.
type Sort struct {
	Admin, Allocated bool
	// Source is what made the claim: "resource_claim_template", "extended_resource", or nothing if that is not known.
	Source string
}

// count counts the claims.
func (r *controller) count() map[Sort]int {
	counts := map[Sort]int{}
	for claim := range r.claims.List() {
		counts[sortOf(claim)]++
	}
	return counts
}

func sortOf(claim *resourcev1.ResourceClaim) Sort {
	s := Sort{Admin: admin(&claim.Spec), Allocated: claim.Status.Allocation != nil}
	if claim.Annotations[madeFor] != "" {
		s.Source = "resource_claim_template"
	} else if claim.Annotations[extended] == "true" {
		s.Source = "extended_resource"
	}
	return s
}
