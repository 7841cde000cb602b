//go:build unix

package main

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestTheUsageOfAProcessIsRead(t *testing.T) {
	u := usageOf(strconv.Itoa(os.Getpid()))
	if !strings.HasPrefix(u.command, "conformance") || u.now == 0 || u.most < u.private || u.private == 0 {
		t.Errorf("this test has used %+v", u)
	}
	if u := usageOf("none"); u != (usage{}) {
		t.Errorf("no process has used %+v", u)
	}
}
