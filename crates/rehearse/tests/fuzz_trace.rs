//! Broken and hostile traces: nothing panics, and what is said and kept is bounded by the
//! input. Every test runs from fixed seeds.

#[path = "../../../tests/random.rs"]
mod random;

use outrank_rehearse::trace::{
    PROBLEMS_MAX, Source, Trace, TraceColumns, TraceErrors, TraceOptions, parse_trace,
};

use random::Random;

const NODES: &[u8] = b"sn,cpu_milli,memory_mib,gpu,model\n\
                       rack-1,32000,262144,8,T4\n\
                       rack-2,64000,131072,0,\n\
                       rack-3,96000,524288,4,V100M16\n";

const PODS: &[u8] = b"name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,\
                      creation_time,deletion_time,scheduled_time\n\
                      p-1,6000,12288,1,460,,LS,Running,10,900,11\n\
                      p-2,12000,16384,8,1000,V100M16|T4,BE,Failed,20,,\n\
                      p-3,500,512,0,0,,Guaranteed,Succeeded,30,40,31\n\
                      p-4,500,512,0,0,,,Succeeded,30,40,31\n";

fn parse(nodes: &[u8], pods: &[u8]) -> Result<Trace, TraceErrors> {
    parse_trace(
        Source {
            name: "nodes.csv".into(),
            reader: nodes,
        },
        Source {
            name: "pods.csv".into(),
            reader: pods,
        },
        &TraceOptions::default(),
    )
}

/// Reads, and looks at everything that comes out. Says whether it was accepted.
fn survive(nodes: &[u8], pods: &[u8]) -> bool {
    match parse(nodes, pods) {
        Ok(trace) => {
            assert!(trace.nodes.len() <= nodes.len());
            assert!(trace.pods.len() <= pods.len());
            for pod in &trace.pods {
                assert!(!pod.pod.metadata.name.is_empty());
                let departs = pod.departure_seconds.unwrap_or(i64::MAX);
                assert!(departs >= pod.arrival_seconds);
            }
            assert!(trace.pods.is_sorted_by_key(|pod| pod.arrival_seconds));
            true
        }
        Err(errors) => {
            let text = errors.to_string();
            assert!(text.lines().count() <= PROBLEMS_MAX + 1, "{text}");
            assert!(
                text.len() <= 2000 * (PROBLEMS_MAX + 1),
                "{} bytes",
                text.len()
            );
            assert!(
                !text.chars().any(|c| c.is_control() && c != '\n'),
                "{text:?}"
            );
            false
        }
    }
}

const FIELDS: &[&[u8]] = &[
    b"",
    b"0",
    b"-1",
    b"1e9",
    b"3.5",
    b" 7 ",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775808",
    b"99999999999999999999999999999999999999",
    b"1000000000001",
    b"rack-1",
    b"p-1",
    b"\"",
    b"\"a,b\"",
    b"\"a\nb\"",
    b"|||",
    b"T4|T4|T4",
    b"\xff\xfe",
    b"\0",
    b"\x1b[31m",
    b"LS",
    b"nobody",
    "\u{1f980}".as_bytes(),
];

/// Replaces fields, and sometimes bytes.
fn mutate(text: &[u8], random: &mut Random) -> Vec<u8> {
    let mut lines: Vec<Vec<Vec<u8>>> = text
        .split(|byte| *byte == b'\n')
        .map(|line| {
            line.split(|byte| *byte == b',')
                .map(<[u8]>::to_vec)
                .collect()
        })
        .collect();
    for _ in 0..=random.below(3) {
        // The header is seldom broken: then nothing else is looked at.
        let first = usize::from(random.below(8) > 0);
        let row = first + random.below(lines.len() - first);
        let column = random.below(lines[row].len());
        match random.below(10) {
            0 => drop(lines[row].remove(column)),
            1 => lines[row].push(b"9".to_vec()),
            2 => lines.push(lines[row].clone()),
            3 => lines[row][column] = vec![b'7'; 1 + random.below(5000)],
            _ => lines[row][column] = random.pick(FIELDS).to_vec(),
        }
        lines.retain(|line| !line.is_empty());
    }
    let lines: Vec<Vec<u8>> = lines
        .iter()
        .map(|line| line.join(&b','.to_owned()))
        .collect();
    let mut text = lines.join(&b'\n');
    if random.below(5) == 0 && !text.is_empty() {
        let at = random.below(text.len());
        text[at] = random.next() as u8;
    }
    text
}

#[test]
fn mutated_traces() {
    assert!(survive(NODES, PODS));
    let mut random = Random(1);
    let mut accepted = 0;
    for _ in 0..20_000 {
        let (nodes, pods) = match random.below(3) {
            0 => (mutate(NODES, &mut random), PODS.to_vec()),
            1 => (NODES.to_vec(), mutate(PODS, &mut random)),
            _ => (mutate(NODES, &mut random), mutate(PODS, &mut random)),
        };
        accepted += usize::from(survive(&nodes, &pods));
    }
    assert!(
        (100..19_900).contains(&accepted),
        "{accepted} of 20000 accepted"
    );
}

#[test]
fn random_bytes() {
    let mut random = Random(2);
    for _ in 0..5_000 {
        let length = random.below(300);
        let noise: Vec<u8> = (0..length)
            .map(|_| match random.below(3) {
                0 => *random.pick(b",,\n\r\"|"),
                1 => b'0' + random.below(10) as u8,
                _ => random.next() as u8,
            })
            .collect();
        survive(&noise, PODS);
        survive(NODES, &noise);
        // After a header that is right.
        let header = |text: &[u8]| {
            text.split_inclusive(|b| *b == b'\n')
                .next()
                .map(<[u8]>::to_vec)
        };
        let with_header = |text: &[u8]| [header(text).unwrap_or_default(), noise.clone()].concat();
        survive(&with_header(NODES), &with_header(PODS));
    }
}

#[test]
fn huge_fields_rows_and_files() {
    let long = "x".repeat(1 << 20);
    let header = "name,cpu_milli,memory_mib\n";
    survive(NODES, format!("{header}{long},1,1\n").as_bytes());
    assert!(!survive(NODES, format!("{header}p,{long},1\n").as_bytes()));
    assert!(!survive(NODES, format!("{header}\"{long}\n").as_bytes()));
    assert!(!survive(NODES, format!("{long}\n").as_bytes()));
    let wide = ",1".repeat(1 << 18);
    assert!(!survive(NODES, format!("{header}p{wide}\n").as_bytes()));
    let broken = "p,x,y\n".repeat(100_000);
    assert!(!survive(NODES, format!("{header}{broken}").as_bytes()));
    let models = "A|".repeat(1 << 16);
    let pods = format!("name,cpu_milli,memory_mib,gpu_spec\np,1,1,{models}\n");
    survive(NODES, pods.as_bytes());
}

/// `--trace-columns` as people write it, and worse.
#[test]
fn column_texts() {
    let valid = "nodes.name=id,pods.cpu_milli=cpu,pods.qos=class";
    assert!(valid.parse::<TraceColumns>().is_ok());
    let parts = [
        "nodes.name",
        "pods.qos",
        "=",
        ",",
        "id",
        "",
        "nodes",
        ".",
        "pods.name=pods.name",
        "\u{1f980}",
        "\"",
        "\n",
        " ",
        "==",
        ",,",
        "pods.colour",
    ];
    let mut random = Random(3);
    for _ in 0..20_000 {
        let count = random.below(12);
        let text: String = (0..count).map(|_| *random.pick(&parts)).collect();
        match text.parse::<TraceColumns>() {
            Ok(columns) => {
                let options = TraceOptions {
                    columns,
                    ..TraceOptions::default()
                };
                let source = |reader| Source {
                    name: "trace.csv".into(),
                    reader,
                };
                let _ = parse_trace(source(NODES), source(PODS), &options);
            }
            Err(error) => {
                let told = error.to_string();
                assert!(told.len() <= 2 * text.len() + 2000, "{told}");
            }
        }
    }
    let long = format!("nodes.name={}", "x".repeat(1 << 20));
    let _ = long.parse::<TraceColumns>();
}
