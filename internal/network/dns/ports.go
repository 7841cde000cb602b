package dns

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// port is a port of a service or of a slice; the zone uses lower case.
type port struct {
	name, protocol string
	number         uint16
}

// portList is a list of ports as text, NUMBER/PROTOCOL/NAME separated by spaces: equal lists, of which a cluster has
// many, are one string.
type portList string

func listPorts(ports []port) portList {
	words := make([]string, len(ports))
	for i, p := range ports {
		words[i] = fmt.Sprintf("%d/%s/%s", p.number, p.protocol, p.name)
	}
	return portList(strings.Join(words, " "))
}

// all ranges over the ports.
func (l portList) all(yield func(port) bool) {
	for word := range strings.SplitSeq(string(l), " ") {
		number, rest, _ := strings.Cut(word, "/")
		n, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			continue // the list is empty
		}
		protocol, name, _ := strings.Cut(rest, "/")
		if !yield(port{name, protocol, uint16(n)}) {
			return
		}
	}
}

// protocol is the protocol's label in the zone, without the underscore.
func protocol(p corev1.Protocol) string {
	switch p {
	case corev1.ProtocolUDP:
		return "udp"
	case corev1.ProtocolSCTP:
		return "sctp"
	}
	return "tcp"
}
