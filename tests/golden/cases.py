"""The command lines that the goldens cover: all() yields (flags, inputs, typed), where typed
is what the shell is told, or None.

`{out}` is a fresh file: what is in it afterwards (gunzipped) is compared too.
"""
PROFILES = ['cpu', 'heap', 'contention', 'recursion', 'addresses', 'units', 'tags', 'odd', 'names',
            'wide', 'empty']
TEXTS = ['heap.txt', 'contention.txt', 'growth.txt', 'goroutine.txt', 'threads.txt']

# Asked of every profile.
EVERY = """
-top
-top -cum
-top -lines
-top -files
-top -filefunctions
-top -addresses
-top -noinlines
-top -lines -showcolumns
-top -nodecount=5
-top -trim=false
-tree
-tree -lines
-tree -cum -nodecount=6
-peek=.
-traces
-traces -lines
-traces -addresses
-tags
-raw
-comments
-dot
-dot -lines
-dot -call_tree
-dot -files -nodecount=8
-callgrind
-callgrind -lines
-proto -output={out}
-topproto -output={out}
-top -unit=ms
-top -unit=MB
-top -sample_index=0
-tree -call_tree
-top -relative_percentages -focus=a
-top -drop_negative
-top -compact_labels
-top -output={out}
-list=. -source_path=.
"""

# Asked of the profiles named after the bar.
SOME = """
-top -focus=json | cpu heap
-top -focus=json -cum | cpu heap
-top -focus=encode.c | cpu heap
-tree -focus=json|db -ignore=escape | cpu heap
-top -ignore=worker_loop | cpu
-top -ignore=main | cpu
-text -addresses | cpu heap addresses
-text -files | cpu contention
-text -filefunctions | cpu recursion
-tree -ignore=json | cpu heap
-top -focus=nothing_like_it | cpu heap tags
-top -ignore=nothing_like_it | cpu
-tree -hide=handle_request|worker | cpu heap
-top -hide=. | cpu
-top -show=json|main | cpu heap
-tree -show=json|main | cpu heap
-top -show=nothing_like_it | cpu
-top -show_from=handle_request | cpu heap
-tree -show_from=worker|hash_lookup | cpu heap
-traces -show_from=handle_request | cpu
-top -prune_from=handle_request | cpu heap
-tree -prune_from=json_encode | cpu
-traces -prune_from=hash_lookup | cpu
-top -prune_from=nothing_like_it | cpu
-top -hide=json -focus=db -cum | cpu
-top -focus=^main$ -ignore=^mal | cpu
-top -focus=(?i)JSON_ENC | cpu heap
-top -noinlines -focus=hash_lookup | cpu heap
-dot -noinlines | cpu recursion
-raw -noinlines | cpu
-proto -noinlines -output={out} | cpu
-proto -focus=json -output={out} | cpu heap
-proto -ignore=json -hide=main -output={out} | cpu
-proto -tagfocus=region=eu -output={out} | cpu
-proto -sample_index=0 -output={out} | cpu heap
-proto -lines -output={out} | cpu
-proto -functions -output={out} | cpu names
-topproto -nodecount=3 -output={out} | cpu wide
-topproto -cum -lines -output={out} | cpu
-proto -tagroot=region -output={out} | cpu
-proto -divide_by=7 -output={out} | cpu heap
-proto -add_comment=hello -output={out} | cpu empty
-comments -add_comment=hello | cpu empty
-top -tagfocus=eu-west | cpu
-top -tagfocus=region=eu-west | cpu
-top -tagfocus=region=eu,us | cpu
-top -tagfocus=endpoint=^/users$ | cpu
-top -tagfocus=nokey=x | cpu
-top -tagignore=eu-west | cpu
-top -tagignore=endpoint=users,orders | cpu
-top -tagignore=request | cpu
-top -tagfocus=4kb | cpu
-top -tagfocus=request=4kb | cpu
-top -tagfocus=request=1kb:2mb | cpu
-top -tagfocus=1kb:2mb | cpu
-top -tagfocus=4096b:4096b | cpu
-top -tagfocus=:1kb | cpu heap
-top -tagfocus=1mb: | cpu heap
-top -tagfocus=bytes=48b | heap
-top -tagfocus=48b,64b | heap
-top -tagignore=1kb:1gb | heap cpu
-top -tagignore=bytes=:512b | heap
-top -tagfocus=thread=102 | cpu
-top -tagfocus=101:102 | cpu
-top -tagfocus=latency=1s:2min | tags
-top -tagfocus=1500ms | tags
-top -tagfocus=latency=:20ms | tags
-top -tagignore=latency=1s: | tags
-top -tagfocus=user=alice,second | tags
-top -tagfocus=user=a | tags
-top -tagfocus=odd=2widgets | tags
-top -tagfocus=count=2 | tags
-top -tagfocus=-5b:1kb | tags
-top -tagfocus=size=-5: | tags
-top -tagfocus=2kb | tags
-tags -tagshow=user | tags
-tags -tagshow=u|c | tags
-tags -taghide=user | tags
-tags -taghide=region|thread | cpu
-tags -tagshow=region | cpu
-tags -focus=json | cpu
-tags -sample_index=0 | cpu heap
-tags -unit=kb | heap tags
-tags -unit=seconds | tags
-tags -nodecount=2 | tags
-tags=lat | tags
-tags -cum | tags
-tags -compact_labels | tags
-traces -tagshow=region | cpu
-traces -taghide=. | cpu tags
-traces -compact_labels | cpu tags
-traces -tagfocus=eu | cpu
-traces -focus=json -sample_index=0 | cpu
-traces -noinlines | cpu
-traces -filefunctions -unit=s | cpu
-traces -showcolumns -lines | odd
-raw -tagshow=region | cpu
-dot -taghide=. | cpu heap
-dot -tagshow=region | cpu
-dot -compact_labels | cpu
-top -tagroot=region | cpu
-top -tagroot=region,endpoint | cpu
-top -tagroot=nokey | cpu
-tree -tagroot=thread | cpu
-top -tagroot=bytes | heap
-top -tagroot=latency | tags
-tree -tagroot=user,latency | tags
-top -tagleaf=region | cpu
-tree -tagleaf=endpoint,region | cpu
-top -tagleaf=request | cpu
-top -tagleaf=bytes -unit=kb | heap
-top -tagleaf=size,user | tags
-peek=eu-west -tagroot=region | cpu
-dot -tagroot=region -tagleaf=endpoint | cpu
-traces -tagroot=region | cpu
-top -tagroot=region -focus=eu-west | cpu
-top -tagleaf=region -show_from=handle | cpu
-top -tagroot=region -lines | cpu
-top -sample_index=1 | cpu heap units
-top -sample_index=2 | cpu heap units
-top -sample_index=samples | cpu
-top -sample_index=alloc_space | heap
-top -sample_index=inuse_objects | heap
-top -sample_index=space | heap
-top -sample_index=objects | heap contention.txt heap.txt
-top -sample_index=delay | contention
-top -sample_index=nope | cpu heap
-top -sample_index=99 | cpu
-top -sample_index=-1 | cpu
-top -sample_index=cost | units
-top -sample_index=time | units
-top -sample_index=io | units
-top -sample_index=plain | units
-top -sample_index=wall | units
-top -inuse_space | heap heap.txt
-top -inuse_objects | heap
-top -alloc_space | heap heap.txt
-top -alloc_objects | heap
-top -total_delay | contention contention.txt cpu
-top -contentions | contention contention.txt
-top -mean_delay | contention contention.txt
-tree -mean_delay | contention
-top -alloc_space -inuse_space | heap
-top -alloc_space -sample_index=0 | heap
-top -mean | cpu heap contention units
-top -mean -sample_index=alloc_space | heap
-dot -mean -sample_index=inuse_space | heap
-traces -mean | cpu contention
-top -mean -cum | contention cpu
-top -divide_by=2 | cpu heap contention units
-top -divide_by=1000 | cpu contention
-top -divide_by=0.5 | cpu
-top -divide_by=0 | cpu
-top -divide_by=-1 | cpu
-dot -divide_by=3 | cpu wide
-traces -divide_by=3 | cpu
-top -unit=auto | cpu heap contention units wide
-top -unit=minimum | cpu heap contention units wide
-top -unit=ns | cpu contention units
-top -unit=us | cpu units
-top -unit=s | cpu contention units
-top -unit=seconds -sample_index=time | units
-top -unit=minutes | cpu
-top -unit=hours | cpu wide
-top -unit=hrs | wide
-top -unit=days | wide
-top -unit=B | heap units
-top -unit=kb | heap units
-top -unit=KiB | heap
-top -unit=gb | heap units
-top -unit=bytes | heap cpu
-top -unit=widgets -sample_index=io | units
-top -unit=gcu -sample_index=cost | units
-top -unit=mgcu -sample_index=cost | units
-top -unit=count | cpu heap
-tree -unit=us | cpu recursion
-peek=json -unit=s | cpu
-dot -unit=s | cpu
-callgrind -unit=us | cpu
-raw -unit=s | cpu
-top -relative_percentages -focus=json | cpu heap
-tree -relative_percentages -focus=db | cpu
-dot -relative_percentages -focus=db | cpu
-top -relative_percentages -tagfocus=eu | cpu
-top -relative_percentages -hide=main | cpu
-tags -relative_percentages -focus=json | cpu
-top -nodecount=0 | cpu wide
-top -nodecount=1 | cpu wide
-top -nodecount=20 | wide
-top -nodecount=1000 | wide
-tree -nodecount=20 | wide
-dot -nodecount=20 | wide
-dot -nodecount=3 | wide cpu names
-dot -nodecount=300 | wide
-top -nodefraction=0.1 | cpu wide
-top -nodefraction=0 | wide
-top -nodefraction=0.5 -cum | wide
-tree -nodefraction=0.05 -edgefraction=0.05 | wide cpu
-dot -nodefraction=0.02 -edgefraction=0.1 | wide cpu
-dot -edgefraction=0.5 | wide
-dot -nodefraction=0 -edgefraction=0 | wide
-dot -trim=false -nodecount=10 | cpu wide
-tree -trim=false | wide
-peek=fn_00 | wide
-peek=fn_219 -cum | wide
-peek=fn_1 -nodecount=5 -nodefraction=0.3 | wide
-peek=fn_2 -lines | wide
-peek=nothing_like_it | wide
-peek=json|db | cpu heap
-peek=json -lines | cpu
-peek=json -files | cpu
-peek=hash_lookup -noinlines | cpu
-peek=walk | recursion
-peek=visit -call_tree | recursion
-peek=walk -lines -sample_index=0 | recursion
-tree -call_tree -nodecount=10 | wide cpu
-dot -call_tree -nodecount=10 | wide recursion
-dot -call_tree -lines | recursion
-callgrind -call_tree | cpu recursion
-callgrind -functions | cpu names
-callgrind -files | cpu
-callgrind -noinlines | cpu
-callgrind -addresses | cpu addresses
-callgrind -focus=json | cpu
-callgrind -sample_index=0 | cpu heap
-top -functions | cpu heap names
-tree -filefunctions -nodecount=8 | wide names
-tree -files | cpu wide
-tree -addresses -nodecount=8 | cpu addresses
-dot -addresses | cpu addresses
-dot -filefunctions | cpu names
-dot -showcolumns -lines | odd
-top -showcolumns | odd cpu
-tree -showcolumns -lines | odd
-top -lines -noinlines | cpu recursion
-top -addresses -noinlines | cpu recursion
-top -files -noinlines | cpu
-top -granularity=lines | cpu
-top -granularity=files -cum | cpu
-top -granularity=nope | cpu
-top -sort=cum | cpu
-top -sort=flat -cum=false | cpu
-top -flat | cpu
-top -trim_path=src | cpu
-top -lines -trim_path=/usr/src:/usr/include | cpu
-top -lines -trim_path=/build/src | names
-top -lines -source_path=/tmp/pkg0 | names
-top -files -trim_path=src/ | cpu
-top -drop_negative -cum | odd
-tree -drop_negative | odd
-dot -drop_negative | odd
-top -nodecount=-1 | cpu wide
-top -normalize | cpu
-top -all_frames | heap
-tree -all_frames | heap
-proto -all_frames -output={out} | heap
-raw -all_frames | heap
-top -buildid=ffff | cpu addresses
-raw -buildid=ffff | cpu
-top -seconds=5 | cpu
-top -timeout=5 | cpu
-top -intel_syntax | cpu
--top --cum | cpu
--top --nodecount 4 | cpu
-top -nodecount 4 -focus json | cpu
-top -cum=true | cpu
-top -cum=1 | cpu
-top -cum=t | cpu
-top -cum=yes | cpu
-top -trim=0 | cpu
-top -trim=maybe | cpu
-top -nodecount=x | cpu
-top -nodefraction=x | cpu
-top -nodecount= | cpu
-list=json | cpu heap
-list=^main$ | cpu heap contention recursion
-list=main|hash|crc -source_path=. | cpu cpu-after
-list=json -noinlines | cpu heap
-list=json -showcolumns | cpu
-list=json -lines | cpu
-list=json -addresses -cum -nodecount=1 | cpu
-list=json -focus=escape | cpu
-list=json -ignore=escape | cpu heap
-list=json -hide=json_escape | cpu
-list=handle -show_from=handle | cpu
-list=handle -sample_index=0 | cpu heap
-list=handle -sample_index=alloc_space -unit=kb | heap
-list=handle -mean | cpu heap
-list=handle -divide_by=7 -unit=us | cpu
-list=handle -relative_percentages -focus=json | cpu
-list=handle -tagfocus=region=eu | cpu
-list=db_query -source_path=elsewhere | cpu
-list=db_query -source_path=elsewhere -trim_path=src | cpu
-list=db_query -source_path=elsewhere/db:. -trim_path=src/db | cpu
-list=db_query -source_path=elsewhere/src -trim_path=other:src/ | cpu
-list=db_query -source_path=nowhere/src | cpu
-list=malloc|tls -source_path=. | cpu
-list=malloc -trim_path=/usr/src -source_path=. | cpu
-list=memcpy|epoll | cpu
-list= -top | cpu
-list=nothing_like_it | cpu heap
-list=( | cpu
-list=.* -source_path=. | addresses odd names
-list=json -drop_negative -source_path=. | cpu odd
-list=json -output={out} | cpu
-list=nothing_like_it -output={out} | cpu
-list=json -top | cpu
-disasm=main | cpu heap addresses
-disasm=nothing_like_it | cpu
-disasm=0x400000 | cpu
-disasm=4194304 | cpu
-disasm=0x12 | cpu
-disasm=( | cpu
-weblist=nothing_like_it | cpu
-weblist=( | cpu
-text | cpu
-text -cum -lines | cpu
-top -tree | cpu
-top -nosuchflag | cpu
-nosuchcommand | cpu
-top -focus=( | cpu
-top -focus=* | cpu
-top -tagfocus=[ | cpu
-top -show_from=( | cpu
-peek=( | cpu
-peek | cpu
-list | cpu
-top -hide=a{2,1} | cpu
-top -focus=\\d | cpu recursion
-top -focus=\\bjson | cpu
-top -focus=[[:alpha:]]+_en | cpu
-top -focus=(?P<name>json) | cpu
-top -focus=\\Qjson_encode\\E | cpu
-top -focus=(?=x) | cpu
-top -focus=(?!x) | cpu
-top -focus=(?<n>j) | cpu
-top -focus=a** | cpu
-top -focus=^*json | cpu
-top -focus=[\\d-z]son | cpu
-top -focus=(a{500}){3} | cpu
-top -focus=json(?i)* | cpu
-top -focus=\\v | cpu
-top -focus=[\\b] | cpu
-top -focus=[a-\\d] | cpu
-top -focus=\\xg | cpu
-top -focus=(?i-) | cpu
-top -focus=[[.j.]]s | cpu
-top -focus=(?<=j)son | cpu
-top -focus=(?P<1n>json) | cpu
-top -focus=^.+$ | odd
-top -focus=a++ | cpu
-top -focus=a{1001} | cpu
-top -focus=a{,2} | cpu
-top -focus=[z-a] | cpu
-top -focus=\\1 | cpu
-top -focus=\\8 | cpu
-top -focus=(?i | cpu
-top -focus=) | cpu
-top -focus=[[:foo:]] | cpu
-top -focus=\\p{Foo} | cpu
-top -focus=(?P<n>a)(?P<n>b) | cpu
-top -focus=\\ | cpu
-top -focus=(?#x) | cpu
-top -focus=x|* | cpu
-top -focus=[a | cpu
-top -focus=\\C | cpu
-top -focus=\\z | cpu
-top -focus=(?s).son | cpu
-top -focus=(?U)j.*n | cpu
-top -focus=\\x{6a}son | cpu
-top -focus=^json$ | cpu
-top -focus=[^a-z_] | cpu
-top -focus=日本 | odd
-top -focus=\\pL{3} | odd
-top -focus=^$ | odd
-top -symbolize=none | cpu addresses
-top -symbolize=nope | cpu
-dot -focus=Bar | names
-dot -nodecount=100 -nodefraction=0 | names
-top -focus=anonymous | names
-peek=Vec | names
-top -trim=false -cum | odd recursion names
-tree -trim=false -lines | recursion
-tree -sample_index=0 | recursion cpu
-dot -sample_index=0 | recursion cpu heap contention
-dot -sample_index=alloc_space | heap
-dot -sample_index=alloc_objects -lines | heap
-raw -sample_index=0 | cpu
-top -diff_base= | cpu
-top -output={out} -cum -lines | cpu
"""

# Several inputs: merges and differences.
MANY = """
-top | cpu cpu-after
-top | cpu cpu
-top | heap heap-kb
-top | heap.txt heap.txt
-top | cpu heap
-top | cpu empty
-top | cpu contention
-raw | cpu cpu-after
-raw | heap heap-kb
-proto -output={out} | cpu cpu-after
-proto -output={out} | cpu cpu cpu
-proto -output={out} | heap heap-kb
-tags | cpu cpu-after
-traces | cpu cpu-after
-comments | cpu empty
-tree | cpu cpu-after wide
-callgrind | cpu cpu-after
-top | cpu nosuchfile
-top | nosuchfile cpu
-top | nosuchfile
-top |
-top -base=cpu.pb.gz | cpu-after
-top -diff_base=cpu.pb.gz | cpu-after
-top -base=cpu.pb.gz -normalize | cpu-after
-top -diff_base=cpu.pb.gz -normalize | cpu-after
-top -base=cpu.pb.gz -cum | cpu-after
-top -base=cpu.pb.gz -drop_negative | cpu-after
-top -diff_base=cpu.pb.gz -drop_negative -cum | cpu-after
-top -base=cpu.pb.gz -sample_index=0 | cpu-after
-top -base=cpu.pb.gz -lines | cpu-after
-tree -base=cpu.pb.gz | cpu-after
-tree -diff_base=cpu.pb.gz | cpu-after
-peek=json -base=cpu.pb.gz | cpu-after
-list=json -base=cpu.pb.gz | cpu-after
-list=. -diff_base=cpu.pb.gz -source_path=. | cpu-after
-list=json | cpu cpu-after
-peek=json -diff_base=cpu.pb.gz | cpu-after
-dot -base=cpu.pb.gz | cpu-after
-dot -diff_base=cpu.pb.gz | cpu-after
-dot -diff_base=cpu.pb.gz -normalize | cpu-after
-traces -base=cpu.pb.gz | cpu-after
-traces -diff_base=cpu.pb.gz | cpu-after
-tags -base=cpu.pb.gz | cpu-after
-tags -diff_base=cpu.pb.gz | cpu-after
-raw -base=cpu.pb.gz | cpu-after
-raw -diff_base=cpu.pb.gz | cpu-after
-callgrind -base=cpu.pb.gz | cpu-after
-callgrind -diff_base=cpu.pb.gz | cpu-after
-proto -base=cpu.pb.gz -output={out} | cpu-after
-proto -diff_base=cpu.pb.gz -output={out} | cpu-after
-proto -diff_base=cpu.pb.gz -normalize -output={out} | cpu-after
-topproto -diff_base=cpu.pb.gz -output={out} | cpu-after
-top -base=cpu.pb.gz | cpu
-top -diff_base=cpu.pb.gz | cpu
-top -base=cpu-after.pb.gz | cpu
-dot -base=cpu-after.pb.gz | cpu
-top -base=cpu.pb.gz -base=cpu.pb.gz | cpu-after
-top -base=cpu.pb.gz -diff_base=cpu.pb.gz | cpu-after
-top -normalize | cpu-after
-top -base=heap.pb.gz | cpu
-top -base=heap-kb.pb.gz | heap
-top -diff_base=heap-kb.pb.gz | heap
-top -diff_base=heap.pb.gz | heap-kb
-top -base=nosuchfile | cpu
-top -diff_base=cpu.pb.gz -focus=json | cpu-after
-top -diff_base=cpu.pb.gz -relative_percentages -focus=json | cpu-after
-top -diff_base=cpu.pb.gz -tagfocus=eu | cpu-after
-top -diff_base=cpu.pb.gz -show_from=handle | cpu-after
-top -diff_base=cpu.pb.gz -unit=s | cpu-after
-top -diff_base=cpu.pb.gz -mean | cpu-after
-top -diff_base=cpu.pb.gz -divide_by=3 | cpu-after
-top -diff_base=cpu.pb.gz | cpu-after cpu-after
-top -base=empty.pb.gz | cpu
-top -diff_base=cpu.pb.gz | empty
-top -base=recursion.pb.gz | wide
-dot -diff_base=recursion.pb.gz | wide
-top -diff_base=contention.pb.gz | contention
"""

# Sessions of the shell, one command a semicolon.
SHELL = """
top | cpu heap wide empty
top5 | cpu wide
top 3 | cpu heap
top 3 json | cpu
top json -escape | cpu
top -cum 4 | cpu wide
top 3 -cum | cpu
text 2 | cpu
tree 4 | cpu wide
tree json | cpu
peek json | cpu
peek nothing_like_it; top 1 | cpu
peek; top 1 | cpu
list json | cpu heap
list main -json | cpu
list handle json_escape | cpu
list json >{out} | cpu
list nothing_like_it; list; top 1 | cpu
list10; top 1 | cpu
source_path=elsewhere; trim_path=src; list db_query | cpu
noinlines=true; list json | cpu
disasm json; disasm; weblist; top 1 | cpu
traces json | cpu
traces -main | cpu
tags | cpu tags
tags region | cpu
tags lat -user | tags
raw | contention
comments | cpu empty
focus=json; top | cpu
focus=json; focus=; top 3 | cpu
focus = json ; top | cpu
focus json; top 2 | cpu
focus="json"; top 2 | cpu
ignore=worker; top | cpu
hide=main; show=json|main; top | cpu
show_from=handle; tree 5 | cpu
tagfocus=eu; top 3 | cpu
tagfocus=4kb:; top 3 | cpu
tagroot=region; top 4 | cpu
granularity=lines; top 3 | cpu
granularity=nope; top 1 | cpu
lines; top 3 | cpu
files; top; functions; top 2 | cpu
cum; top 3; flat; top 3 | cpu
sort=cum; top 3 | cpu
sort=nope; top 1 | cpu
nodecount=3; top; top 6 | cpu wide
nodecount=-1; top 2 | wide
nodefraction=0.2; top | cpu
unit=ms; top 2 | cpu
unit=auto; top 2 | wide
divide_by=3; top 2 | cpu
divide_by=0; top 2 | cpu
sample_index=samples; top 3 | cpu
sample_index=0; top 2; sample_index=1; top 2 | cpu heap
sample_index=9; top 1 | cpu
samples; top 2; cpu; top 2 | cpu
inuse_objects; top 2; alloc_space; top 2 | heap
total_delay; top 2; mean_delay; top 2; contentions; top 2 | contention
mean_cpu; top 2; total_cpu; top 2 | cpu
mean; top 2 | contention
trim=false; top 3 | wide
trim=0; top 3 | wide
trim=maybe; top 1 | cpu
call_tree; tree 3 | recursion
call_tree=yes; tree 3 | recursion
noinlines=true; top 3 | cpu
relative_percentages; focus=json; top 3 | cpu
compact_labels=false; traces json | cpu
drop_negative; top | odd
top > {out}; top 1 | cpu
top 2 > {out} | cpu
top2>{out} | cpu
dot > {out} | cpu
proto > {out} | cpu heap
callgrind > {out} | cpu
output={out}; top | cpu
; ;top 1; ; | cpu
# top 5; top 1 | cpu
top 1 // not this | cpu
nosuchcommand | cpu
top 1; quit; top 2 | cpu
top 1; exit; top 2 | cpu
focus=(; top 1 | cpu
top ( | cpu
top nothing_like_it | cpu
list; top 1 | cpu
o | cpu heap
options | contention
focus=x; lines; nodecount=7; unit=s; o | cpu
help nosuchtopic | cpu
"""


def name(text):
    return text if '.' in text or text == 'nosuchfile' else text + '.pb.gz'


def all():
    for flags in EVERY.strip().splitlines():
        for profile in PROFILES:
            yield flags.split(' '), [name(profile)], None
    for flags in EVERY.strip().splitlines()[::3]:
        for profile in TEXTS + ['cpu.pb']:
            yield flags.split(' '), [profile], None
    for line in SOME.strip().splitlines():
        flags, inputs = line.rsplit(' | ', 1)
        for profile in inputs.split():
            yield flags.replace('\\\\', '\\').split(' '), [name(profile)], None
    for line in MANY.strip().splitlines():
        flags, _, inputs = line.partition(' |')
        yield flags.split(' '), [name(i) for i in inputs.split()], None
    for line in SHELL.strip().splitlines():
        typed, inputs = line.rsplit(' | ', 1)
        for profile in inputs.split():
            yield [], [name(profile)], typed.replace('; ', '\n').replace(';', '\n') + '\n'
