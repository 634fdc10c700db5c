// A Go program with cgo (the resolver) that starts a program and profiles itself. Go passes on the
// environment that it was started with.
package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime/pprof"
	"sync"
	"time"
)

func burn(d time.Duration) int {
	end, n := time.Now().Add(d), 0
	for time.Now().Before(end) {
		for i := 0; i < 100000; i++ {
			n += i * i
		}
	}
	return n
}

func main() {
	net.LookupHost("localhost")
	var group sync.WaitGroup
	for i := 0; i < 4; i++ {
		group.Add(1)
		go func() { burn(100 * time.Millisecond); group.Done() }()
	}
	group.Wait()
	out, err := exec.Command("/bin/echo", "child").CombinedOutput()
	fmt.Print(string(out))
	fmt.Println("the child ran:", err == nil)
	var own bytes.Buffer
	err = pprof.StartCPUProfile(&own)
	burn(200 * time.Millisecond)
	pprof.StopCPUProfile()
	fmt.Println("own profile:", err == nil && own.Len() > 0)
	os.Exit(3)
}
