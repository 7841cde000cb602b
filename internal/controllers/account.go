package controllers

// Account returns the service account in kube-system with which a loop calls the API. As in Kubernetes each loop has
// its own, with the bootstrap role "system:controller:ACCOUNT". Usually it has the loop's name. The loop that makes
// tokens for accounts has none: it calls the API as [Program] itself.
func Account(loop string) string {
	if other, ok := accounts[loop]; ok {
		return other
	}
	return loop
}

// accounts has the service accounts with other names than their loops.
var accounts = map[string]string{
	"bootstrap-signer-controller":                                    "bootstrap-signer",
	"certificatesigningrequest-approving-controller":                 "certificate-controller",
	"certificatesigningrequest-cleaner-controller":                   "certificate-controller",
	"certificatesigningrequest-signing-controller":                   "certificate-controller",
	"cloud-node-lifecycle-controller":                                "node-controller",
	"daemonset-controller":                                           "daemon-set-controller",
	"endpoints-controller":                                           "endpoint-controller",
	"endpointslice-mirroring-controller":                             "endpointslicemirroring-controller",
	"garbage-collector-controller":                                   "generic-garbage-collector",
	"horizontal-pod-autoscaler-controller":                           "horizontal-pod-autoscaler",
	"kube-apiserver-serving-clustertrustbundle-publisher-controller": "kube-apiserver-serving-clustertrustbundle-publisher",
	"legacy-serviceaccount-token-cleaner-controller":                 "legacy-service-account-token-cleaner",
	"node-ipam-controller":                                           "node-controller",
	"node-lifecycle-controller":                                      "node-controller",
	"node-route-controller":                                          "route-controller",
	"persistentvolume-attach-detach-controller":                      "attachdetach-controller",
	"persistentvolume-binder-controller":                             "persistent-volume-binder",
	"persistentvolume-expander-controller":                           "expand-controller",
	"persistentvolume-protection-controller":                         "pv-protection-controller",
	"persistentvolumeclaim-protection-controller":                    "pvc-protection-controller",
	"pod-garbage-collector-controller":                               "pod-garbage-collector",
	"podcertificaterequest-cleaner-controller":                       "podcertificaterequestcleaner",
	"replicationcontroller-controller":                               "replication-controller",
	"resourceclaim-controller":                                       "resource-claim-controller",
	"root-ca-certificate-publisher-controller":                       "root-ca-cert-publisher",
	"service-cidr-controller":                                        "service-cidrs-controller",
	"serviceaccount-token-controller":                                "",
	"service-lb-controller":                                          "service-controller",
	"serviceaccount-controller":                                      "service-account-controller",
	"taint-eviction-controller":                                      "node-controller",
	"token-cleaner-controller":                                       "token-cleaner",
}
