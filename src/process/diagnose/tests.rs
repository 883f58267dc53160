//! One case for each row: the lines that a server says, and what a person is told.

use super::*;

fn cause(line: &str, how: How) -> Option<String> {
    diagnose(&[line.to_owned()], how).map(|diagnosis| diagnosis.cause)
}

#[test]
fn the_special_goes_before_the_general() {
    assert_eq!(
        cause("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", How::Code(1)),
        Some("the GPU has too little memory for this".to_owned())
    );
    assert_eq!(
        cause("git@host: Permission denied (publickey).", How::Code(128)),
        Some("the git server wants credentials".to_owned())
    );
    assert_eq!(cause("sh: 1: foo: not found", How::Code(127)), Some("a command was not found".to_owned()));
    assert_eq!(cause("cat: data.txt: No such file or directory", How::Code(1)), Some("a file is not there".to_owned()));
}

#[test]
fn a_stop_that_was_asked_for_needs_no_cause() {
    assert_eq!(cause("Permission denied", How::Stopped), None);
    assert_eq!(cause("anything", How::Code(0)), None);
    assert_eq!(cause("it just failed", How::Code(1)), None);
}

#[test]
fn signs_are_lower_case() {
    for sign in server::TABLE.iter().flat_map(|(signs, _)| *signs) {
        assert_eq!(*sign, sign.to_lowercase());
    }
    for (sign, _) in TABLE {
        if let Sign::Text(texts) = sign {
            for text in *texts {
                assert_eq!(*text, text.to_lowercase());
            }
        }
    }
}
